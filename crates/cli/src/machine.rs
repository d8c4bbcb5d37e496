//! The machine that the model knows: the file it is in.

use std::io::Read;
use std::path::{Path, PathBuf};

use fusewire_model::Machine;

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
    Ok(Machine::of_json(&text).map_err(|error| wrong(error.to_string()))?)
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
