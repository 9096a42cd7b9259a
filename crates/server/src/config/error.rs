//! Everything that is wrong with a configuration, at once.

use std::fmt;

use super::tree::Source;

/// Why there is no configuration. Has at least one sentence; each names the file or variable, the
/// field and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError(Vec<String>);

impl ConfigError {
    /// One thing that is wrong.
    pub(crate) fn one(sentence: String) -> Self {
        Self(vec![sentence])
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return f.write_str(only);
        }
        write!(f, "the configuration has {} errors:", self.0.len())?;
        self.0.iter().try_for_each(|sentence| write!(f, "\n  {sentence}"))
    }
}

impl std::error::Error for ConfigError {}

/// Collects what is wrong and what is risky while a configuration is read.
#[derive(Default)]
pub(crate) struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    pub(crate) fn error(&mut self, source: &Source, path: &str, message: impl fmt::Display) {
        self.errors.push(sentence(source, path, message));
    }

    pub(crate) fn warn(&mut self, source: &Source, path: &str, message: impl fmt::Display) {
        self.warnings.push(sentence(source, path, message));
    }

    /// The warnings, if there were no errors.
    pub(crate) fn into_result(self) -> Result<Vec<String>, ConfigError> {
        if self.errors.is_empty() { Ok(self.warnings) } else { Err(ConfigError(self.errors)) }
    }
}

fn sentence(source: &Source, path: &str, message: impl fmt::Display) -> String {
    if path.is_empty() {
        format!("{source}: {message}")
    } else {
        format!("{source}: {path}: {message}")
    }
}
