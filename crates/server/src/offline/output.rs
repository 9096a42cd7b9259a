//! Where codes are written to: standard output, a device, or a file that appears when complete.

use std::fs::{self, File, Permissions};
use std::io::{self, StdoutLock, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

/// An output that nobody mistakes for a complete one before [`Output::finish`].
#[derive(Debug)]
pub(crate) enum Output {
    Stdout(StdoutLock<'static>),
    /// Pipes and devices cannot be replaced by a finished file, so they are written as they are.
    Device(File, PathBuf),
    /// A temporary file beside the target. It takes the target's name at the end; dropped before
    /// that, it is removed.
    File(NamedTempFile, PathBuf),
}

impl Output {
    /// Opens an output; `-` is standard output.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout(io::stdout().lock()));
        }
        let context = || format!("cannot write to {}", path.display());
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                anyhow::bail!("cannot write to {}: it is a directory", path.display())
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(path).with_context(context)?;
                return Ok(Self::Device(file, path.to_owned()));
            }
            _ => {}
        }
        // A symbolic link stays one: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            anyhow::bail!("{}: there is no directory {}", context(), directory.display());
        }
        let file = tempfile::Builder::new()
            .prefix(".mintage-")
            .suffix(".partial")
            // As for any new file: the umask takes away what the user wants taken away.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            // The name of the temporary file would only distract.
            .map_err(|error| io::Error::from(error.kind()))
            .with_context(context)?;
        Ok(Self::File(file, target))
    }

    /// Makes everything durable and gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let name = self.name();
        let context = || format!("cannot write to {name}");
        self.flush().with_context(context)?;
        if let Self::File(file, target) = self {
            file.as_file().sync_all().with_context(context)?;
            file.persist(&target).map_err(|error| error.error).with_context(context)?;
        }
        Ok(())
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdout(_) => "standard output".to_owned(),
            Self::Device(_, path) | Self::File(_, path) => path.display().to_string(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Device(file, _) => file.write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Device(file, _) => file.flush(),
            Self::File(file, _) => file.flush(),
        }
    }
}
