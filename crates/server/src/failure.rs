//! How a command ends when it cannot do what it was asked to.

use std::io;
use std::process::ExitCode;

use crate::message::say;

/// What went wrong, and whose turn it is.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a file that it names asks for something impossible. Exit code 2.
    Usage(String),
    /// The work could not be done. Exit code 1.
    Work(anyhow::Error),
    /// The reader of our output went away, as `head` does. That is not a failure.
    OutputClosed,
}

impl Failure {
    pub(crate) fn usage(message: impl std::fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Prints one sentence and chooses the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                say(format_args!("mintage: {message}"));
                ExitCode::from(2)
            }
            Self::Work(error) => {
                say(format_args!("mintage: {error:#}"));
                ExitCode::from(1)
            }
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let closed = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(closed) { Self::OutputClosed } else { Self::Work(error) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}
