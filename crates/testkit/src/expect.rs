//! Files that are given, and files beside them that say what comes of them.

use std::fs;
use std::path::Path;

/// Takes each file of a folder that has an extension: `run` gets its name and its bytes, and calls what it is given
/// with another extension and the text that the file of that extension must have. With `FUSEWIRE_UPDATE=1` those are
/// written anew, for a look at what changed.
///
/// # Panics
/// One is other than expected, or there are no files.
pub fn each_file(
    folder: &Path,
    extension: &str,
    mut run: impl FnMut(&str, &[u8], &mut dyn FnMut(&str, &str)),
) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("the folder").path();
        if path.extension().is_none_or(|e| e != extension) {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).expect("a file");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        run(&name, &bytes, &mut |extension, found| {
            let path = path.with_extension(extension);
            if fs::read_to_string(&path).unwrap_or_default() == found {
            } else if std::env::var_os("FUSEWIRE_UPDATE").is_some() {
                fs::write(&path, found).expect("a file that can be written");
            } else {
                wrong.push(path);
            }
        });
    }
    assert!(count > 0, "no files");
    assert!(wrong.is_empty(), "other than expected, FUSEWIRE_UPDATE=1 writes them anew: {wrong:?}");
}
