//! The machine that the model knows: the file it is in.

use std::io::Read;
use std::path::{Path, PathBuf};

use fusewire_model::Machine;
use fusewire_model::machine::{Error, VERSION};

use crate::output::{Code, Failure, Result};

/// Larger files hold something else.
const FILE_MAX: u64 = 1 << 20;

/// Where this machine is kept when nothing else is said.
pub fn kept() -> Result<PathBuf> {
    fusewire_calibration::kept().ok_or_else(|| {
        let why = "neither XDG_CACHE_HOME nor HOME says where: use --machine FILE";
        Failure::new(Code::Usage, why).into()
    })
}

/// What every version of the form has.
#[derive(serde::Deserialize)]
struct Head {
    version: u32,
}

/// The machine in a file, or the one that is kept.
///
/// # Errors
/// When there is none, or what is there is none.
pub fn machine(file: Option<&PathBuf>) -> Result<Machine> {
    let path = match file {
        Some(path) => path.clone(),
        None => kept()?,
    };
    let wrong = |why: String| Failure::new(Code::Failed, format!("{}: {why}", path.display()));
    let text = text(&path)
        .map_err(|why| wrong(format!("{why}; `fusewire model calibrate` measures this machine")))?;
    let unread = |error: serde_json::Error| {
        wrong(format!("{error}; `fusewire model calibrate` writes it anew"))
    };
    // The version first: another one has other fields.
    let Head { version } = serde_json::from_str(&text).map_err(unread)?;
    if version != VERSION {
        return Err(wrong(Error::Version(version).to_string()).into());
    }
    let machine: Machine = serde_json::from_str(&text).map_err(unread)?;
    machine.check().map_err(|error| wrong(error.to_string()))?;
    Ok(machine)
}

/// The machine that is kept, if one is.
///
/// # Errors
/// When what is kept is none.
pub fn kept_machine() -> Result<Option<Machine>> {
    match kept() {
        Ok(path) if path.exists() => machine(Some(&path)).map(Some),
        _ => Ok(None),
    }
}

/// A file of JSON, as far as anybody writes one.
pub fn text(path: &Path) -> std::result::Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let len =
        file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if len as u64 > FILE_MAX {
        return Err(format!("more than {FILE_MAX} bytes"));
    }
    Ok(text)
}
