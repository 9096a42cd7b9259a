//! What is logged, and how.
//!
//! Lines go to standard error. Never logged, at no level: API keys, the master key and the keys of
//! ID types, `Authorization` headers, IDs and codes that were issued, payloads of documents, and
//! request or response bodies. Settings that hold a secret are types that print `***`.

use std::io;

use tracing::Subscriber;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;

use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error, of which the caller knows whether it is a terminal.
pub(crate) fn init(log: &LogConfig, is_terminal: bool) {
    // Fails only where logging was started before, and then that stays as it is.
    let _ = tracing::subscriber::set_global_default(subscriber(log, is_terminal, io::stderr));
}

fn subscriber<W>(log: &LogConfig, is_terminal: bool, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let targets = Targets::new()
        .with_default(log.level.default)
        .with_targets(log.level.modules.iter().cloned());
    let text = match log.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = fmt::layer().with_writer(writer);
    if text {
        Box::new(Registry::default().with(lines.with_filter(targets)))
    } else {
        // The fields of an event stand beside its message, where log collectors look for them;
        // the innermost span carries the request's ID.
        let lines = lines.json().flatten_event(true).with_span_list(false);
        Box::new(Registry::default().with(lines.with_filter(targets)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::Config;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written for a few events under the given variables.
    fn logged(variables: &[(&str, &str)], is_terminal: bool) -> String {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let (config, _) = Config::load_with_sources(None, variables).unwrap();
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(&config.log, is_terminal, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", request_id = "r1").entered();
            tracing::info!(count = 3, "issued 3 IDs");
            tracing::debug!(target: "engine::pool", "refilled");
            tracing::debug!(target: "storage_sqlite", "hidden");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_on_a_terminal_and_json_otherwise() {
        let text = logged(&[], true);
        assert!(text.contains("INFO") && text.contains("issued 3 IDs"), "{text}");
        let json: serde_json::Value = serde_json::from_str(logged(&[], false).trim()).unwrap();
        assert_eq!(json["message"], "issued 3 IDs");
        assert_eq!(json["count"], 3);
        assert_eq!(json["span"]["request_id"], "r1");
        let forced = logged(&[("MINTAGE__LOG__FORMAT", "json")], true);
        assert!(forced.starts_with('{'), "{forced}");
    }

    #[test]
    fn single_modules_have_levels_of_their_own() {
        let text = logged(&[("MINTAGE__LOG__LEVEL", "off,engine=debug")], true);
        assert!(text.contains("refilled"), "{text}");
        assert!(!text.contains("hidden") && !text.contains("issued"), "{text}");
    }
}
