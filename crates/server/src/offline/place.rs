//! Where `--out` leads, found out before any work is done.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::files::directory_of;

/// The descriptors of this process, where they have names.
const OWN_DESCRIPTORS: &str = "/proc/self/fd";

const STDOUT: u32 = 1;

/// As many symbolic links in a row as Linux follows.
const LINKS_MAX: usize = 40;

/// Something that can be written to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A descriptor that is already open, such as standard output. It is written to where it
    /// stands, even if it leads to a file: whoever opened it decided that.
    Descriptor(u32),
    /// A pipe or a device. It cannot be replaced by a finished file.
    Device(PathBuf),
    /// A file, there or not yet. `mode` is that of the file that is there.
    File { target: PathBuf, mode: Option<u32> },
}

impl Place {
    /// Finds out where a path leads; `-` is standard output. Nothing is opened or made.
    pub(crate) fn find(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Descriptor(STDOUT));
        }
        if path.as_os_str().is_empty() {
            bail!("cannot write to a file without a name");
        }
        let context = || format!("cannot write to {}", path.display());
        let target = match follow_links(path) {
            Followed::Descriptor(number) => {
                fs::metadata(own_descriptor_path(number)).with_context(context)?;
                return Ok(Self::Descriptor(number));
            }
            Followed::Path(target) => target,
        };
        let mode = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => bail!("{}: it is a directory", context()),
            Ok(metadata) if !metadata.is_file() => return Ok(Self::Device(path.to_owned())),
            Ok(metadata) => Some(metadata.permissions().mode() & 0o777),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(context),
        };
        if target.as_os_str().as_bytes().ends_with(b"/") {
            bail!("{}: it names a directory, and codes go into a file", context());
        }
        let directory = directory_of(&target);
        match fs::metadata(directory) {
            Ok(_) => Ok(Self::File { target, mode }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("{}: there is no directory {}", context(), directory.display())
            }
            Err(error) => Err(error).with_context(context),
        }
    }

    /// Whether something written here would end up in the file at `path`, by whatever name.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        let (own_path, target) = match self {
            Self::Descriptor(number) => (own_descriptor_path(*number), None),
            Self::Device(path) => (path.clone(), None),
            Self::File { target, .. } => (target.clone(), real_path(target)),
        };
        let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let found = identity(&own_path);
        (found.is_some() && found == identity(path))
            || (target.is_some() && target == real_path(path))
    }
}

/// A name under which an open descriptor can be looked at, or opened once more.
pub(super) fn own_descriptor_path(number: u32) -> PathBuf {
    Path::new(OWN_DESCRIPTORS).join(number.to_string())
}

enum Followed {
    Descriptor(u32),
    /// The end of the links, whether there is something or not.
    Path(PathBuf),
}

/// Follows symbolic links by hand, because the names of descriptors look like links to files, and
/// because a link may lead to a file that is not there yet.
fn follow_links(path: &Path) -> Followed {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Some(number) = own_descriptor(&path) {
            return Followed::Descriptor(number);
        }
        let Ok(link) = fs::read_link(&path) else { break };
        path = directory_of(&path).join(link);
    }
    Followed::Path(path)
}

/// The number behind `/dev/fd/1` and its other names.
fn own_descriptor(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let directory = fs::canonicalize(directory_of(path)).ok()?;
    (directory == fs::canonicalize(OWN_DESCRIPTORS).ok()?).then_some(number)
}

/// The path without links on the way, also of a file that is not there yet.
fn real_path(path: &Path) -> Option<PathBuf> {
    let Followed::Path(path) = follow_links(path) else { return None };
    Some(fs::canonicalize(directory_of(&path)).ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn descriptors_are_known_by_all_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/dev/stderr", &link).unwrap();
        for (path, number) in [
            (Path::new("-"), 1),
            (Path::new("/dev/stdout"), 1),
            (Path::new("/dev/fd/1"), 1),
            (Path::new("/proc/self/fd/1"), 1),
            (Path::new("/dev/stderr"), 2),
            (&link, 2),
        ] {
            assert_eq!(Place::find(path).unwrap(), Place::Descriptor(number), "{}", path.display());
        }
        assert!(Place::find(Path::new("/dev/fd/987654")).is_err());
    }

    #[test]
    fn links_lead_to_files_that_are_not_there_yet() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| Place::find(&directory.path().join(name));
        symlink("target", directory.path().join("dangling")).unwrap();
        symlink("nowhere/target", directory.path().join("lost")).unwrap();
        symlink("around", directory.path().join("around")).unwrap();
        let target = directory.path().join("target");
        let found = place("dangling").unwrap();
        assert_eq!(found, Place::File { target: target.clone(), mode: None });
        assert!(found.is_file(&target) && found.is_file(&directory.path().join("dangling")));
        assert!(!found.is_file(&directory.path().join("other")));
        assert!(place("lost").unwrap_err().to_string().contains("there is no directory"));
        assert!(place("around").is_err());
        assert!(place("new/").unwrap_err().to_string().contains("names a directory"));
        assert!(place("").unwrap_err().to_string().contains("is a directory"));
        assert!(Place::find(Path::new("")).is_err());
    }

    #[test]
    fn one_file_with_two_names_is_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        fs::write(&one, "").unwrap();
        fs::hard_link(&one, &two).unwrap();
        assert!(Place::find(&one).unwrap().is_file(&two));
        assert!(Place::find(&one).unwrap().is_file(&directory.path().join("./one")));
        let inside = one.join("file");
        assert!(Place::find(&inside).is_err());
    }
}
