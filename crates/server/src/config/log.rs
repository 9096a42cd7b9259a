//! `log`: what is written to standard error.

use serde::{Deserialize, Deserializer, de};
use tracing::level_filters::LevelFilter;

use super::suggest::{choices, did_you_mean};

/// Settings under `log`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// How much is written.
    pub(crate) level: LogLevel,
    /// For whom it is written.
    pub(crate) format: LogFormat,
    /// Whether each request gets a line.
    pub(crate) requests: bool,
}

/// For whom lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For log collectors.
    Json,
}

/// A level, and other levels for single parts: `info,engine=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLevel {
    /// Of everything that is not named.
    pub(crate) default: LevelFilter,
    /// Of single modules, as Rust names them.
    pub(crate) modules: Vec<(String, LevelFilter)>,
}

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

impl LogLevel {
    /// Reads the form in which levels are written. Stricter than the usual parsers, which take a
    /// misspelt level for the name of a module.
    fn parse(text: &str) -> Result<Self, String> {
        let mut parsed = Self { default: LevelFilter::INFO, modules: Vec::new() };
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((module, name)) => {
                    let module = module.trim().replace('-', "_");
                    parsed.modules.push((module, level(name.trim())?));
                }
                None => parsed.default = level(part)?,
            }
        }
        Ok(parsed)
    }
}

fn level(name: &str) -> Result<LevelFilter, String> {
    let found = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, level)| *level).ok_or_else(|| {
        let names = LEVELS.map(|(name, _)| name);
        format!(
            "{name:?} is not a level; use {}, and for single parts a list such as \
             info,engine=debug{}",
            choices(&names, "or"),
            did_you_mean(name, &names)
        )
    })
}

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_with_exceptions_for_modules() {
        let level = LogLevel::parse("warn, engine=debug,storage-sqlite=TRACE").unwrap();
        assert_eq!(level.default, LevelFilter::WARN);
        let modules = [("engine", LevelFilter::DEBUG), ("storage_sqlite", LevelFilter::TRACE)];
        assert_eq!(level.modules, modules.map(|(name, level)| (name.to_owned(), level)));
    }

    #[test]
    fn a_misspelt_level_is_not_a_module() {
        let error = LogLevel::parse("inof").unwrap_err();
        assert!(error.contains("use off, error, warn, info, debug or trace"), "{error}");
        assert!(error.contains("did you mean info?"), "{error}");
        assert!(LogLevel::parse("").is_err());
        assert!(LogLevel::parse("info,engine=loud").is_err());
    }
}
