//! Where codes are written to: a descriptor, a device, or a file that appears when complete.

use std::fs::{File, Permissions};
use std::io::{self, IsTerminal as _, Stderr, StdoutLock, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::files::{directory_of, sync_directory};
use super::interrupts::Interrupts;
use super::place::{Place, own_descriptor_path};

/// As for any new file: the umask takes away what the user wants taken away.
const NEW_FILE_MODE: u32 = 0o666;

/// An output that nobody mistakes for a complete one before [`Output::finish`].
#[derive(Debug)]
pub(crate) enum Output {
    Stdout(StdoutLock<'static>),
    Stderr(Stderr),
    /// Another descriptor, a pipe or a device, with its name.
    Opened(File, PathBuf),
    /// A temporary file beside the target. It takes the target's name at the end; dropped before
    /// that, it is removed.
    File(NamedTempFile, PathBuf, Interrupts),
}

impl Output {
    /// Opens a place for writing.
    pub(crate) fn open(place: Place, interrupts: &Interrupts) -> anyhow::Result<Self> {
        let opened = |options: &mut std::fs::OpenOptions, path: PathBuf| {
            let file = options.open(&path);
            let file = file.with_context(|| format!("cannot write to {}", path.display()))?;
            Ok(Self::Opened(file, path))
        };
        match place {
            Place::Descriptor(1) => Ok(Self::Stdout(io::stdout().lock())),
            Place::Descriptor(2) => Ok(Self::Stderr(io::stderr())),
            // Opened anew it would start at the beginning; what is there already must stay.
            Place::Descriptor(number) => {
                opened(File::options().append(true), own_descriptor_path(number))
            }
            Place::Device(path) => opened(File::options().write(true), path),
            Place::File { target, mode } => {
                let context = format!("cannot write to {}", target.display());
                // The name must be known to the thread that removes it as soon as there is one.
                let file = interrupts.whole_step(|temporary| {
                    let file = temporary_file(&target, mode)?;
                    *temporary = Some(file.path().to_owned());
                    io::Result::Ok(file)
                });
                Ok(Self::File(file.context(context)?, target, interrupts.clone()))
            }
        }
    }

    /// Makes everything durable and gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let name = self.name();
        let context = || format!("cannot write to {name}");
        self.flush().with_context(context)?;
        if let Self::File(file, target, interrupts) = self {
            // This can take long, and a signal ends it.
            file.as_file().sync_all().with_context(context)?;
            interrupts.whole_step(|temporary| {
                file.persist(&target).map_err(|error| error.error).with_context(context)?;
                *temporary = None;
                anyhow::Ok(())
            })?;
            sync_directory(directory_of(&target)).with_context(context)?;
        }
        Ok(())
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdout(_) => "standard output".to_owned(),
            Self::Stderr(_) => "standard error".to_owned(),
            Self::Opened(_, path) | Self::File(_, path, _) => path.display().to_string(),
        }
    }

    /// Whether a person watches the codes go by.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout(stdout) => stdout.is_terminal(),
            Self::Stderr(stderr) => stderr.is_terminal(),
            Self::Opened(file, _) => file.is_terminal(),
            Self::File(..) => false,
        }
    }
}

/// A file beside the target, as open to others as the one that it will replace.
fn temporary_file(target: &Path, mode: Option<u32>) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(".mintage-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(mode.unwrap_or(NEW_FILE_MODE)))
        .tempfile_in(directory_of(target))
        // The name of the temporary file would only distract.
        .map_err(|error| io::Error::from(error.kind()))?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Stderr(stderr) => stderr.write(bytes),
            Self::Opened(file, _) => file.write(bytes),
            Self::File(file, ..) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Stderr(stderr) => stderr.flush(),
            Self::Opened(file, _) => file.flush(),
            Self::File(file, ..) => file.flush(),
        }
    }
}
