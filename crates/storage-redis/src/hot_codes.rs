//! How codes stand that were asked for a moment ago: a string for each.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redis::{Pipeline, Value};
use storage::{CodeKey, CodeStatus, HotCodes, Result, Void};

use crate::SharedRedis;
use crate::error::Trouble;
use crate::keys;

/// What is noted of a code that was just changed.
const SPOILT: &str = "";

impl SharedRedis {
    /// Sends commands about the key of a code.
    async fn ask_of_code(
        &self,
        code: &CodeKey,
        add: impl FnOnce(&mut Pipeline, &str),
    ) -> Result<Vec<Value>, Trouble> {
        let link = self.shared.breaker.link()?;
        let (key, tag) = keys::code(&self.shared.settings.namespace, link.epoch, code);
        let mut commands = Pipeline::with_capacity(3);
        add(&mut commands, &key);
        self.shared.ask_aside(&link, &tag, commands).await
    }
}

#[async_trait]
impl HotCodes for SharedRedis {
    async fn hot_code(&self, code: &CodeKey) -> Result<Option<(CodeStatus, Duration)>> {
        let answers = self
            .ask_of_code(code, |commands, key| {
                // The time first: what may be believed for less than is said is of no use to anybody.
                commands.cmd("PTTL").arg(key);
                commands.cmd("GET").arg(key);
            })
            .await?;
        let [Value::Int(left_ms), noted] = &answers[..] else { return Err(NO_CODE.into()) };
        let (Value::BulkString(text), Ok(left_ms)) = (noted, u64::try_from(*left_ms)) else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(text) else { return Err(NO_CODE.into()) };
        if text == SPOILT {
            return Ok(None);
        }
        self.shared.figures.hot_codes_found.add(1);
        let status = read(text).ok_or(NO_CODE)?;
        Ok(Some((status, Duration::from_millis(left_ms))))
    }

    async fn note_hot_code(
        &self,
        code: &CodeKey,
        status: &CodeStatus,
        keep: Duration,
    ) -> Result<bool> {
        let text = write(status);
        let keep_ms = keep.as_millis().to_string();
        if keep.as_millis() == 0 {
            return Ok(false);
        }
        let answers = self
            .ask_of_code(code, |commands, key| {
                commands.cmd("SET").arg(key).arg(text).arg("NX").arg("PX").arg(keep_ms);
            })
            .await?;
        Ok(matches!(answers[..], [Value::Okay]))
    }

    async fn spoil_hot_code(&self, code: &CodeKey, quiet: Duration) -> Result<Duration> {
        let quiet_ms = quiet.as_millis().max(1).to_string();
        let answers = self
            .ask_of_code(code, |commands, key| {
                commands.cmd("PTTL").arg(key);
                commands.cmd("SET").arg(key).arg(SPOILT).arg("PX").arg(quiet_ms).arg("GET");
            })
            .await?;
        let [Value::Int(left_ms), noted] = &answers[..] else { return Err(NO_CODE.into()) };
        let was_noted = matches!(noted, Value::BulkString(text) if text != SPOILT.as_bytes());
        let left_ms = u64::try_from(*left_ms).unwrap_or_default();
        Ok(Duration::from_millis(if was_noted { left_ms } else { 0 }))
    }
}

/// Scans, first scan, since when it is void, and why, one on each line. Only the last can have lines of
/// its own.
fn write(status: &CodeStatus) -> String {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    let void = status.void.as_ref();
    let reason = void.map(|void| void.reason.as_str()).unwrap_or_default();
    let (first, void) = (time(status.first_scanned_at), time(void.map(|void| void.at)));
    format!("{}\n{first}\n{void}\n{reason}", status.scans)
}

fn read(text: &str) -> Option<CodeStatus> {
    let mut parts = text.splitn(4, '\n');
    let scans = parts.next()?.parse().ok()?;
    let mut time = || match parts.next()? {
        "" => Some(None),
        text => Timestamp::from_str(text).ok().map(Some),
    };
    let (first_scanned_at, void_at) = (time()?, time()?);
    let reason = parts.next()?.to_owned();
    let void = void_at.map(|at| Void { at, reason });
    Some(CodeStatus { scans, first_scanned_at, void })
}

const NO_CODE: Trouble = Trouble::Unexpected("how a code stands");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let at = "2026-11-17T10:00:00.123456Z".parse().unwrap();
        let void = Some(Void { at, reason: "two\nlines".to_owned() });
        for status in [
            CodeStatus { scans: 0, first_scanned_at: None, void: None },
            CodeStatus { scans: 7, first_scanned_at: Some(at), void: None },
            CodeStatus { scans: u64::MAX, first_scanned_at: None, void },
        ] {
            assert_eq!(read(&write(&status)), Some(status));
        }
        for text in ["", "x\n\n\n", "1\nyesterday\n\n", "1\n\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
