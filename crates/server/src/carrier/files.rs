//! Documents as files.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use engine::outbox::{NewFile, WriteOrder};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// The longest name of a file that common file systems take, with room for the ending of one that is not
/// complete.
const NAME_BYTES_MAX: usize = 240;

/// Up to so many files are brought to the disk one by one. More are quicker with one wait for the whole
/// file system, which is also a wait for what others have written there.
const SYNC_EACH_MAX: usize = 4;

/// How files are brought to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Each,
    Together,
}

/// Says why a name is not one of a directory below the root: it must lead nowhere else.
pub(super) fn check_directory(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let usable = |part: &str| {
        !part.is_empty() && part.len() <= 64 && !part.starts_with('.') && part.bytes().all(plain)
    };
    if name.split('/').all(usable) {
        return Ok(());
    }
    Err("the directory must be named by ASCII letters, digits, '_', '-' and '.', as in invoices/2026"
        .to_owned())
}

/// Says whether the directory of all sinks is there. It is not made again: what belongs there may only be
/// away, and would be found in two places.
pub(super) fn check_root(root: &Path) -> Result<(), String> {
    if root.is_dir() {
        return Ok(());
    }
    Err("the server's outbound.directory is not there".to_owned())
}

/// Writes files below the directory of a tenant.
pub(super) fn write_order(
    root: &Path,
    order: &WriteOrder,
) -> Result<Vec<Result<(), String>>, String> {
    check_root(root)?;
    let tenant = file_name(&order.tenant).map_err(|error| reason(&error))?;
    let directory = root.join(tenant).join(&order.directory);
    fs::create_dir_all(&directory).map_err(|error| reason(&error))?;
    Ok(write_all(root, &directory, &order.files, order.in_order))
}

/// Writes files below a directory. Each is complete before it takes its place, so that nobody ever sees
/// half of one. What is on the disk counts, not what was written.
fn write_all(
    root: &Path,
    directory: &Path,
    files: &[NewFile],
    in_order: bool,
) -> Vec<Result<(), String>> {
    let sync = if files.len() <= SYNC_EACH_MAX { Sync::Each } else { Sync::Together };
    let mut parents = Parents::default();
    let mut results: Vec<io::Result<()>> = Vec::with_capacity(files.len());
    for file in files {
        let result = write(directory, file, sync, &mut parents);
        let failed = result.is_err();
        results.push(result);
        if failed && in_order {
            break;
        }
    }
    let flush = || match sync {
        Sync::Each => sync_directories(root, &parents),
        Sync::Together => sync_file_systems(&parents),
    };
    if results.iter().any(Result::is_ok)
        && let Err(error) = flush()
    {
        let kind = error.kind();
        for result in &mut results {
            if result.is_ok() {
                *result = Err(io::Error::new(kind, format!("cannot flush: {error}")));
            }
        }
    }
    results.into_iter().map(|result| result.map_err(|error| reason(&error))).collect()
}

/// What is wrong, without the path, which is nobody else's business.
fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.source());
    inner.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Directories that files are written to, opened before.
#[derive(Default)]
struct Parents {
    open: HashMap<PathBuf, Rc<File>>,
    /// The first one on each file system, by its device.
    first: HashMap<u64, Rc<File>>,
}

impl Parents {
    /// Opens a directory, and makes it if it is missing.
    fn open(&mut self, path: &Path) -> io::Result<Rc<File>> {
        if let Some(directory) = self.open.get(path) {
            return Ok(Rc::clone(directory));
        }
        fs::create_dir_all(path)?;
        let directory = Rc::new(File::open(path)?);
        let device = directory.metadata()?.dev();
        self.first.entry(device).or_insert_with(|| Rc::clone(&directory));
        self.open.insert(path.to_owned(), Rc::clone(&directory));
        Ok(directory)
    }
}

/// Brings everything to the disks that was written since the directories were opened. Below a directory
/// there may be other file systems, by mounts and links.
///
/// An error of writing is told once to each descriptor that was open when it happened. One that is opened
/// later may not be told any more, if somebody else has heard of it first.
fn sync_file_systems(parents: &Parents) -> io::Result<()> {
    parents.first.values().try_for_each(|directory| Ok(rustix::fs::syncfs(directory)?))
}

/// Makes the names in directories last, and the directories themselves.
fn sync_directories(root: &Path, parents: &Parents) -> io::Result<()> {
    for (path, directory) in &parents.open {
        directory.sync_all()?;
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
            File::open(above)?.sync_all()?;
        }
    }
    Ok(())
}

fn write(directory: &Path, file: &NewFile, sync: Sync, parents: &mut Parents) -> io::Result<()> {
    let mut path = directory.to_owned();
    for name in &file.path {
        path.push(file_name(name)?);
    }
    let parent = path.parent().unwrap_or(directory);
    let open = parents.open(parent)?;
    let content = file.content.as_bytes();
    // The shorter way is not there on every file system, and replaces nothing that is there already.
    // Whatever else is wrong, the longer way says so.
    if sync == Sync::Together && write_unnamed(&open, &path, content).is_ok() {
        return Ok(());
    }
    write_beside(parent, &path, content, sync)
}

/// Gives a file its name when it is complete.
fn write_unnamed(parent: &File, path: &Path, content: &[u8]) -> io::Result<()> {
    let (flags, mode) = (OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from(0o666));
    let mut unnamed = File::from(rustix::fs::openat(parent, ".", flags, mode)?);
    unnamed.write_all(content)?;
    let name = path.file_name().unwrap_or_default();
    match rustix::fs::linkat(&unnamed, "", parent, name, AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 only privileged processes are allowed the short way.
        Err(Errno::NOENT) => {
            let own = format!("/proc/self/fd/{}", unnamed.as_raw_fd());
            Ok(rustix::fs::linkat(CWD, own, parent, name, AtFlags::SYMLINK_FOLLOW)?)
        }
        result => Ok(result?),
    }
}

/// Writes a file beside its place, and moves it there when it is complete.
///
/// Two attempts at one document write the same; the later one wins, which changes nothing. Beside its
/// place each has a name of its own, as one that took too long may still be at it.
fn write_beside(parent: &Path, path: &Path, content: &[u8], sync: Sync) -> io::Result<()> {
    let mut beside = tempfile::Builder::new()
        .prefix(".part-")
        // As any new file, and not for this program alone.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(parent)?;
    beside.write_all(content)?;
    if sync == Sync::Each {
        beside.as_file().sync_data()?;
    }
    beside.persist(path)?;
    Ok(())
}

/// A name as one of a file: whatever is in it, it is neither a path nor hidden, and no two are the same.
fn file_name(name: &str) -> io::Result<String> {
    let mut escaped = String::with_capacity(name.len());
    for (place, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if place == 0 => escaped.push_str("%2E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            other => {
                let _ = write!(escaped, "%{other:02X}");
            }
        }
    }
    if escaped.is_empty() || escaped.len() > NAME_BYTES_MAX {
        let problem = format!("{name:?} is too long for the name of a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_of_files() {
        for (name, expected) in [
            ("PROJ-9012-1001.json", "PROJ-9012-1001.json"),
            ("INV/2026/1.json", "INV%2F2026%2F1.json"),
            ("..", "%2E."),
            (".hidden", "%2Ehidden"),
            ("a%2Fb", "a%252Fb"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(file_name(name).unwrap(), expected);
        }
        assert!(file_name("").is_err() && file_name(&"x".repeat(241)).is_err());
    }

    #[test]
    fn directories_stay_below_the_root() {
        for name in ["invoices", "a/b/c", "2026-11", "x.y_z"] {
            assert_eq!(check_directory(name), Ok(()), "{name}");
        }
        for name in ["", "/", "/etc", "a/../b", "..", "a//b", "a/", ".ssh", "a b", "ä", "a\0b"] {
            assert!(check_directory(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_is_written_over_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let file = |content: &str| NewFile {
            path: vec!["t".to_owned(), "1.json".to_owned()],
            content: content.to_owned(),
        };
        assert_eq!(write_all(directory.path(), directory.path(), &[file("a")], false), [Ok(())]);
        assert_eq!(write_all(directory.path(), directory.path(), &[file("b")], false), [Ok(())]);
        let found = fs::read_dir(directory.path().join("t")).unwrap();
        let found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(found, [directory.path().join("t/1.json")]);
        assert_eq!(fs::read_to_string(&found[0]).unwrap(), "b");
        let nowhere = directory.path().join("t/1.json");
        assert!(write_all(directory.path(), &nowhere, &[file("c")], false)[0].is_err());
    }

    #[test]
    fn many_files_are_written_as_few_are() {
        let directory = tempfile::tempdir().unwrap();
        for count in [SYNC_EACH_MAX, SYNC_EACH_MAX + 1] {
            let file = |number: usize| NewFile {
                path: vec![format!("of {count}"), format!("{number}.json")],
                content: number.to_string(),
            };
            let files: Vec<_> = (0..count).map(file).collect();
            let results = write_all(directory.path(), directory.path(), &files, false);
            assert!(results.iter().all(Result::is_ok) && results.len() == count);
            let below = directory.path().join(format!("of%20{count}"));
            assert_eq!(fs::read_dir(&below).unwrap().count(), count);
            assert_eq!(fs::read_to_string(below.join("3.json")).unwrap(), "3");
        }
    }

    /// The descriptor from before all writes is the one that is told of every error since.
    #[test]
    fn each_file_system_is_flushed_by_what_was_opened_there_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut parents = Parents::default();
        let first = parents.open(&directory.path().join("a")).unwrap();
        parents.open(&directory.path().join("b/c")).unwrap();
        assert!(Rc::ptr_eq(&parents.open(&directory.path().join("a")).unwrap(), &first));
        assert_eq!((parents.open.len(), parents.first.len()), (2, 1));
        let device = first.metadata().unwrap().dev();
        assert!(Rc::ptr_eq(&parents.first[&device], &first));
        // A link that leads to another file system.
        std::os::unix::fs::symlink("/proc/self", directory.path().join("link")).unwrap();
        parents.open(&directory.path().join("link")).unwrap();
        assert_eq!((parents.open.len(), parents.first.len()), (3, 2));
        sync_file_systems(&parents).unwrap();
    }

    #[test]
    fn many_files_are_written_over_those_before() {
        let directory = tempfile::tempdir().unwrap();
        for content in ["a", "b"] {
            let file = |number: usize| NewFile {
                path: vec![format!("{number}.json")],
                content: content.to_owned(),
            };
            let files: Vec<_> = (0..=SYNC_EACH_MAX).map(file).collect();
            let results = write_all(directory.path(), directory.path(), &files, false);
            assert!(results.iter().all(Result::is_ok));
            // Nothing is left beside them.
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), files.len());
            let last = directory.path().join(format!("{SYNC_EACH_MAX}.json"));
            assert_eq!(fs::read_to_string(last).unwrap(), content);
        }
    }

    #[test]
    fn in_order_nothing_is_written_behind_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| NewFile { path: vec![name.to_owned()], content: String::new() };
        let files = [file("1"), file(""), file("3")];
        let written = |in_order| -> Vec<bool> {
            write_all(directory.path(), directory.path(), &files, in_order)
                .iter()
                .map(Result::is_ok)
                .collect()
        };
        assert_eq!(written(true), [true, false]);
        assert!(!directory.path().join("3").exists());
        assert_eq!(written(false), [true, false, true]);
    }
}
