//! What is transferred, made from a seed, and what is there, as one hash.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fusewire_base::Lines;

use crate::made::{self, Random};
use crate::{Error, Result};

/// Files in one folder.
const FOLDER_FILES: usize = 100;
/// Sizes of small files are spread evenly over their logarithms: as many from 64 to 128 bytes as from 8 to 16 KiB.
const SIZE_OCTAVES: f64 = 8.7;
/// 2020: an mtime that no copy has by chance.
const MADE: Duration = Duration::from_secs(1_577_836_800);

/// Sizes of `files` files that are `bytes` bytes together.
fn sizes(files: usize, bytes: u64, random: &mut Random) -> Vec<u64> {
    let draw = |random: &mut Random| {
        let part = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        (part * SIZE_OCTAVES).exp2()
    };
    let weights: Vec<f64> = (0..files).map(|_| draw(random)).collect();
    let scale = bytes as f64 / weights.iter().sum::<f64>();
    let mut sizes: Vec<u64> = weights.iter().map(|w| (w * scale) as u64).collect();
    let rest = bytes.saturating_sub(sizes.iter().sum());
    if let Some(last) = sizes.last_mut() {
        *last += rest;
    }
    sizes
}

/// Makes the folder `root` with `files` files of `bytes` bytes together, a hundred in a folder.
pub fn make(root: &Path, files: usize, bytes: u64) -> Result<()> {
    let os = || Error::os("making the tree");
    let mut random = Random::new(1);
    let mut contents = Vec::new();
    for (n, size) in sizes(files, bytes, &mut random).into_iter().enumerate() {
        let folder = root.join(format!("folder-{:04}", n / FOLDER_FILES));
        if n % FOLDER_FILES == 0 {
            fs::create_dir_all(&folder).map_err(os())?;
        }
        contents.resize(size as usize, 0);
        random.fill(&mut contents);
        let file = File::create(folder.join(format!("file-{n:06}.dat"))).map_err(os())?;
        (&file).write_all(&contents).map_err(os())?;
        let mode = if n % 10 == 0 { 0o755 } else { 0o644 };
        file.set_permissions(Permissions::from_mode(mode)).map_err(os())?;
        file.set_modified(SystemTime::UNIX_EPOCH + MADE + Duration::new(n as u64, n as u32))
            .map_err(os())?;
    }
    Ok(())
}

/// Makes a file of `bytes` bytes.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let os = || Error::os("making the large file");
    made::make_file(path, bytes)?;
    let file = File::options().write(true).open(path).map_err(os())?;
    file.set_permissions(Permissions::from_mode(0o644)).map_err(os())?;
    file.set_modified(SystemTime::UNIX_EPOCH + MADE).map_err(os())
}

/// What is at `path`, in one hash: names, kinds, permissions, contents, and the times of files. Whoever may not be
/// waited for is asked by `go_on`.
pub fn digest(path: &Path, go_on: &dyn Fn() -> bool) -> Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    add(path, &mut hasher, &mut Lines::new(1 << 20), go_on)?;
    Ok(hasher.finalize())
}

fn add(
    path: &Path,
    to: &mut blake3::Hasher,
    buffer: &mut [u8],
    go_on: &dyn Fn() -> bool,
) -> Result<()> {
    let os = || Error::os("looking at what has come");
    if !go_on() {
        return Err(Error::Interrupted);
    }
    let metadata = fs::symlink_metadata(path).map_err(os())?;
    to.update(&metadata.mode().to_le_bytes());
    if metadata.is_dir() {
        let entries = fs::read_dir(path).map_err(os())?;
        let names: std::io::Result<Vec<_>> = entries.map(|e| e.map(|e| e.file_name())).collect();
        let mut names = names.map_err(os())?;
        names.sort();
        to.update(&(names.len() as u64).to_le_bytes());
        for name in names {
            to.update(&(name.len() as u64).to_le_bytes());
            to.update(name.as_bytes());
            add(&path.join(name), to, buffer, go_on)?;
        }
        return Ok(());
    }
    let (size, time) = (metadata.len(), [metadata.mtime(), metadata.mtime_nsec()]);
    to.update(&size.to_le_bytes());
    for part in time {
        to.update(&part.to_le_bytes());
    }
    let mut file = File::open(path).map_err(os())?;
    loop {
        let len = file.read(buffer).map_err(os())?;
        if len == 0 {
            return Ok(());
        }
        if !go_on() {
            return Err(Error::Interrupted);
        }
        to.update(&buffer[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_many_bytes_as_were_asked_for_and_spread() {
        let sizes = sizes(20_000, 89_600_000, &mut Random::new(1));
        assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (20_000, 89_600_000));
        let mut sorted = sizes.clone();
        sorted.sort_unstable();
        let (tenth, half, most) = (sorted[2_000], sorted[10_000], sorted[19_990]);
        assert!((60..200).contains(&tenth), "{tenth}");
        assert!((800..2_500).contains(&half), "{half}");
        assert!((20_000..64_000).contains(&most), "{most}");
    }

    #[test]
    fn a_changed_byte_name_mode_or_time_is_seen() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let root = scratch.path().join("tree");
        make(&root, 150, 60_000).unwrap();
        let digest = || digest(&root, &|| true).unwrap();
        let (before, file) = (digest(), root.join("folder-0001/file-000120.dat"));
        let bytes = fs::read(&file).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        let write = |bytes: &[u8], time| {
            fs::write(&file, bytes).unwrap();
            File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        };
        let mut other = bytes.clone();
        other[3] ^= 1;
        write(&other, time);
        assert_ne!(digest(), before);
        write(&bytes, time + Duration::from_nanos(1));
        assert_ne!(digest(), before);
        write(&bytes, time);
        assert_eq!(digest(), before);
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_ne!(digest(), before);
        fs::remove_file(&file).unwrap();
        assert_ne!(digest(), before);
    }
}
