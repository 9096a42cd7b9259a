//! What every file here is handled with: reads that end, and names that last.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a file that should be small; one that is larger than `bytes_max` is an error.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it is larger than {} KiB", bytes_max / 1024);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The directory that a path leads to.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a new name in a directory survive a power failure. Directories that cannot be opened or
/// file systems that cannot do this are left as they are: the file itself is safe.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let Ok(directory) = File::open(directory) else { return Ok(()) };
    match directory.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, [7; 2048]).unwrap();
        assert_eq!(read_bounded(&path, 2048).unwrap().len(), 2048);
        let error = read_bounded(&path, 2047).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1 KiB");
        assert!(read_bounded(Path::new("/dev/zero"), 4096).is_err());
    }
}
