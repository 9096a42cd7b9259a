//! A 256-bit key in a file: 64 hexadecimal digits, readable by the owner only.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use idgen::key::TypeKey;

use super::files::{directory_of, read_bounded, sync_directory};
use crate::message::say;

/// Room for a key and much white space.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What was found at a path, or put there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Existing,
    Created,
}

/// Reads the key, or makes a file with a new one.
pub(crate) fn read_or_create(path: &Path) -> anyhow::Result<(TypeKey, Origin)> {
    if let Some(key) = read(path)? {
        return Ok((key, Origin::Existing));
    }
    if let Some(key) = create(path)? {
        return Ok((key, Origin::Created));
    }
    // Another process made it between our look and our attempt.
    let key = read(path)?.with_context(|| format!("{} vanished", path.display()))?;
    Ok((key, Origin::Existing))
}

/// Reads the key, if there is a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<TypeKey>> {
    let text = match read_bounded(path, FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the key file {}", path.display()));
        }
    };
    let mut bytes = [0; TypeKey::BYTES];
    hex::decode_to_slice(text.trim_ascii(), &mut bytes).map_err(|_| {
        anyhow::anyhow!(
            "{} is not a key file: expected {} hexadecimal digits",
            path.display(),
            2 * TypeKey::BYTES
        )
    })?;
    warn_if_open_to_others(path);
    Ok(Some(TypeKey::new(bytes)))
}

fn warn_if_open_to_others(path: &Path) {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        let path = path.display();
        say(format_args!(
            "mintage: warning: others can read the key file {path}; run: chmod 600 {path}"
        ));
    }
}

/// Makes the file in one step, so that nobody ever reads half a key. `None` if it already exists.
fn create(path: &Path) -> anyhow::Result<Option<TypeKey>> {
    let context = || format!("cannot make the key file {}", path.display());
    let mut bytes = [0; TypeKey::BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other).with_context(context)?;
    let key = TypeKey::new(bytes);

    let directory = directory_of(path);
    let mut file = tempfile::Builder::new()
        .prefix(".mintage-key-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)
        // The name of the temporary file would only distract.
        .map_err(|error| std::io::Error::from(error.kind()))
        .with_context(context)?;
    writeln!(file, "{}", hex::encode(key.as_bytes())).with_context(context)?;
    file.as_file().sync_all().with_context(context)?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            sync_directory(directory).with_context(context)?;
            Ok(Some(key))
        }
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error.error).with_context(context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        let (made, origin) = read_or_create(&path).unwrap();
        assert_eq!(origin, Origin::Created);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (read, origin) = read_or_create(&path).unwrap();
        assert_eq!((read, origin), (made, Origin::Existing));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn broken_files_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.key");
        for text in ["", "abc", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)] {
            fs::write(&path, text).unwrap();
            let error = read_or_create(&path).unwrap_err();
            assert!(error.to_string().contains("64 hexadecimal digits"), "{error}");
        }
        fs::write(&path, " ".repeat(65 * 1024)).unwrap();
        let error = format!("{:#}", read_or_create(&path).unwrap_err());
        assert!(error.contains("larger than 64 KiB"), "{error}");
    }
}
