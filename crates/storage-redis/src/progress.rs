//! How far batches are: a hash for each batch that somebody follows.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redis::{Pipeline, Value};
use storage::{BatchId, BatchState, Progress, ProgressBoard, Result, Void};

use crate::SharedRedis;
use crate::error::Trouble;
use crate::keys;

/// Writes the hash with its time to live, both or neither. Key: the hash. Arguments: time to live in ms,
/// fields and values.
const SHOW: &str = "\
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return redis.call('PEXPIRE', KEYS[1], ARGV[1])";

#[async_trait]
impl ProgressBoard for SharedRedis {
    async fn show_progress(
        &self,
        batch: BatchId,
        progress: &Progress,
        keep: Duration,
    ) -> Result<()> {
        let link = self.shared.breaker.link()?;
        let (key, tag) = keys::progress(&self.shared.settings.namespace, link.epoch, batch);
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("EVAL").arg(SHOW).arg(1).arg(key).arg(keep.as_millis().max(1).to_string());
        for (field, value) in fields(progress) {
            commands.arg(field).arg(value);
        }
        self.shared.ask_aside(&link, &tag, commands).await?;
        Ok(())
    }

    async fn progress(&self, batch: BatchId) -> Result<Option<Progress>> {
        let link = self.shared.breaker.link()?;
        let (key, tag) = keys::progress(&self.shared.settings.namespace, link.epoch, batch);
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("HGETALL").arg(key);
        let answers = self.shared.ask_aside(&link, &tag, commands).await?;
        let fields = read_fields(&answers.into_iter().next().unwrap_or_default())?;
        if fields.is_empty() {
            return Ok(None);
        }
        self.shared.figures.progress_found.add(1);
        Ok(Some(read(&fields).ok_or(NO_PROGRESS)?))
    }
}

/// What is not there is written as well, so that nothing is left of what was written before.
fn fields(progress: &Progress) -> [(&'static str, String); 11] {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    let recalled = progress.recalled.as_ref();
    [
        ("state", progress.state.name().to_owned()),
        ("made", progress.made.to_string()),
        ("abandoned", progress.abandoned.to_string()),
        ("dead_chunks", progress.dead_chunks.to_string()),
        ("error", progress.error.clone().unwrap_or_default()),
        ("started_at", time(progress.started_at)),
        ("finished_at", time(progress.finished_at)),
        ("idle_since", time(progress.idle_since)),
        ("idle_us", progress.idle.as_micros().to_string()),
        ("recalled_at", time(recalled.map(|void| void.at))),
        ("recalled_reason", recalled.map(|void| void.reason.clone()).unwrap_or_default()),
    ]
}

fn read(fields: &HashMap<String, String>) -> Option<Progress> {
    let state = fields.get("state")?;
    let recalled = time(fields, "recalled_at")?;
    let reason = fields.get("recalled_reason")?;
    Some(Progress {
        state: BatchState::ALL.into_iter().find(|known| known.name() == state)?,
        made: number(fields, "made")?,
        abandoned: number(fields, "abandoned")?,
        dead_chunks: number(fields, "dead_chunks")?,
        error: fields.get("error").filter(|error| !error.is_empty()).cloned(),
        started_at: time(fields, "started_at")?,
        finished_at: time(fields, "finished_at")?,
        idle_since: time(fields, "idle_since")?,
        idle: Duration::from_micros(number(fields, "idle_us")?),
        recalled: recalled.map(|at| Void { at, reason: reason.clone() }),
    })
}

fn number(fields: &HashMap<String, String>, name: &str) -> Option<u64> {
    fields.get(name)?.parse().ok()
}

/// None if it cannot be read, and nothing if it is not set.
#[expect(clippy::option_option, reason = "a field that is empty is not one that is broken")]
fn time(fields: &HashMap<String, String>, name: &str) -> Option<Option<Timestamp>> {
    match fields.get(name)?.as_str() {
        "" => Some(None),
        text => Timestamp::from_str(text).ok().map(Some),
    }
}

/// Fields and values, one behind the other.
fn read_fields(answer: &Value) -> Result<HashMap<String, String>, Trouble> {
    let Value::Array(parts) = answer else { return Err(NO_PROGRESS) };
    let text = |part: &Value| match part {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| NO_PROGRESS),
        _ => Err(NO_PROGRESS),
    };
    parts
        .chunks(2)
        .map(|pair| match pair {
            [field, value] => Ok((text(field)?, text(value)?)),
            _ => Err(NO_PROGRESS),
        })
        .collect()
}

const NO_PROGRESS: Trouble = Trouble::Unexpected("how far a batch is");
