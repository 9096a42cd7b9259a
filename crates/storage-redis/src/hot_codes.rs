//! How codes stand that were asked for a moment ago: a string for each.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redis::{Pipeline, Value};
use storage::{BoardTime, CodeKey, CodeStatus, HotCode, HotCodes, Result, Void};

use crate::SharedRedis;
use crate::error::Trouble;
use crate::keys;

/// What is noted of a code that was just changed.
const SPOILT: &str = "";

/// Tells the time, how long a note is good for and what it says. Key: the code.
const LOOK: &str = "\
local time = redis.call('TIME')
return {
  time[1] * 1000 + math.floor(time[2] / 1000),
  redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])
}";

/// Puts something in the place of a note, and tells how long that was good for. Key: the code. Arguments:
/// what to put there, and for how long in ms.
const SPOIL: &str = "\
local left = redis.call('PTTL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return left";

impl SharedRedis {
    /// Sends a command about the key of a code.
    async fn ask_of_code(
        &self,
        code: &CodeKey,
        add: impl FnOnce(&mut Pipeline, &str),
    ) -> Result<Value, Trouble> {
        let link = self.shared.breaker.link()?;
        let (key, tag) = keys::code(&self.shared.settings.namespace, link.epoch, code);
        let mut commands = Pipeline::with_capacity(2);
        add(&mut commands, &key);
        let answers = self.shared.ask_aside(&link, &tag, commands).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}

#[async_trait]
impl HotCodes for SharedRedis {
    async fn hot_code(&self, code: &CodeKey) -> Result<HotCode> {
        let look = |commands: &mut Pipeline, key: &str| {
            commands.cmd("EVAL").arg(LOOK).arg(1).arg(key);
        };
        let Value::Array(found) = self.ask_of_code(code, look).await? else {
            return Err(NO_CODE.into());
        };
        let [Value::Int(at), Value::Int(left_ms), note] = &found[..] else {
            return Err(NO_CODE.into());
        };
        let at = BoardTime(u64::try_from(*at).map_err(|_| NO_CODE)?);
        let noted = match (note, u64::try_from(*left_ms)) {
            (Value::BulkString(text), Ok(left_ms)) if text != SPOILT.as_bytes() => {
                let text = std::str::from_utf8(text).map_err(|_| NO_CODE)?;
                self.shared.figures.hot_codes_found.add(1);
                Some((read(text).ok_or(NO_CODE)?, Duration::from_millis(left_ms)))
            }
            _ => None,
        };
        Ok(HotCode { noted, at })
    }

    async fn note_hot_code(
        &self,
        code: &CodeKey,
        status: &CodeStatus,
        until: BoardTime,
    ) -> Result<bool> {
        let note = |commands: &mut Pipeline, key: &str| {
            commands.cmd("SET").arg(key).arg(write(status)).arg("NX").arg("PXAT").arg(until.0);
        };
        Ok(matches!(self.ask_of_code(code, note).await?, Value::Okay))
    }

    async fn spoil_hot_code(&self, code: &CodeKey, quiet: Duration) -> Result<Duration> {
        let quiet_ms = quiet.as_millis().max(1).to_string();
        let spoil = |commands: &mut Pipeline, key: &str| {
            commands.cmd("EVAL").arg(SPOIL).arg(1).arg(key).arg(SPOILT).arg(quiet_ms);
        };
        // Whoever comes second does not know when the first one came, and waits as long as that may be.
        match self.ask_of_code(code, spoil).await? {
            Value::Int(left_ms) => Ok(Duration::from_millis(left_ms.try_into().unwrap_or(0))),
            _ => Err(NO_CODE.into()),
        }
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
