//! What must hold for every batch that was accepted. It is complete, or somebody has cancelled it; what is
//! made is on record once, is in the file, and is what a scan should find.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::batches::{Accepted, Outcome, TYPES};
use crate::http::Http;
use crate::world::World;

/// How long a batch may take when nothing is broken any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Codes of each batch that are scanned, over all of its chunks.
const SAMPLE: usize = 40;

/// What is wrong with a batch, or else an error of the test itself.
type Judged = anyhow::Result<Result<(), String>>;

/// Looks at batches.
pub(crate) struct Checker<'a> {
    world: &'a World,
    url: String,
    http: Http,
    /// Codes of each type.
    seen: [HashSet<String>; 2],
    pub(crate) outcome: Outcome,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let url = world.addresses.get(0).unwrap_or_default();
        let seen = [HashSet::new(), HashSet::new()];
        Self { world, url, http: Http::new(), seen, outcome: Outcome::default() }
    }

    pub(crate) fn check(&mut self, batch: &Accepted) -> anyhow::Result<()> {
        self.outcome.batches += 1;
        if let Err(problem) = self.judge(batch)? {
            let line = format!("batch {} of {}: {problem}", batch.id, batch.count);
            self.outcome.wrong.push(line);
        }
        Ok(())
    }

    fn judge(&mut self, batch: &Accepted) -> Judged {
        let Some(is_cancelled) = self.is_cancelled(batch)? else {
            return Ok(Err("cancelling it is never answered".to_owned()));
        };
        let last = self.wait_for_its_end(batch)?;
        let (state, made) = (&last["state"], last["made"].as_u64().unwrap_or(u64::MAX));
        let ended = if is_cancelled {
            state == "cancelled" && made < batch.count
        } else {
            state == "completed" && made == batch.count
        };
        let reason = batch.cancel.as_ref().filter(|_| is_cancelled);
        let reason = reason.map_or(Value::Null, |body| body["void_reason"].clone());
        if !ended || last["total"] != batch.count || last["recalled"]["reason"] != reason {
            return Ok(Err(format!("it is {last}")));
        }
        self.outcome.cancelled += usize::from(is_cancelled);
        let on_record = self.on_record(&batch.id)?;
        if on_record != (made, batch.count - made) {
            return Ok(Err(format!("{made} are made, and rows and gaps are {on_record:?}")));
        }
        Ok(self.check_codes(batch, made, if reason.is_null() { "genuine" } else { "void" }))
    }

    /// Whether it was cancelled; none if nobody says.
    fn is_cancelled(&self, batch: &Accepted) -> anyhow::Result<Option<bool>> {
        if batch.cancel.is_none() {
            return Ok(Some(false));
        }
        let mut status = 0;
        let answered = self.world.wait_until(PATIENCE, || {
            let answer = batch.cancel(&self.http, &self.url);
            status = answer.map_or(0, |(status, _)| status);
            // The other one says that it was complete before.
            status == 200 || status == 409
        })?;
        Ok(answered.then_some(status == 200))
    }

    fn wait_for_its_end(&mut self, batch: &Accepted) -> anyhow::Result<Value> {
        let path = format!("{}/api/v1/batches/{}", self.url, batch.id);
        let mut last = Value::Null;
        self.world.wait_until(PATIENCE, || {
            last = self.http.get(&path).unwrap_or_default();
            if last["state"] == "needs_attention" {
                let retry = format!("{}/api/v1/dead-letters/retry", self.url);
                let settled = self.http.post(&retry, &json!({"batch": batch.id}), None);
                self.outcome.dead_letters +=
                    settled.and_then(|(_, body)| body["settled"].as_u64()).unwrap_or(0);
            }
            last["state"] == "completed" || last["state"] == "cancelled"
        })?;
        Ok(last)
    }

    /// Rows of a batch, and serials of it that will never be codes.
    fn on_record(&self, id: &str) -> anyhow::Result<(u64, u64)> {
        let of_batch = format!(
            "SELECT type_id, start, stop, to_regclass('codes_' || type_id || '_0') IS NOT NULL,
                 (SELECT coalesce(sum(gaps.stop - gaps.start), 0) FROM gaps
                  WHERE gaps.type_id = batches.type_id AND reason = 'batch_cancelled'
                    AND gaps.start >= batches.start AND gaps.stop <= batches.stop)
             FROM batches WHERE id = {id}"
        );
        for database in &self.world.databases {
            let found = database.sql(&of_batch);
            let [type_id, start, stop, has_table, gaps] = found.split('|').collect::<Vec<_>>()[..]
            else {
                continue;
            };
            let rows = match has_table {
                "t" => database.sql(&format!(
                    "SELECT count(*) FROM codes_{type_id}_0
                     WHERE serial >= {start} AND serial < {stop}"
                )),
                _ => "0".to_owned(),
            };
            return Ok((rows.parse()?, gaps.parse()?));
        }
        Ok((0, 0))
    }

    fn check_codes(&mut self, batch: &Accepted, made: u64, expected: &str) -> Result<(), String> {
        let path = format!("{}/api/v1/batches/{}/codes?format=txt", self.url, batch.id);
        let file = self.http.text(&path).ok_or("it has no file")?;
        let codes: Vec<&str> = file.lines().collect();
        if codes.len() as u64 != made {
            return Err(format!("{made} are made, and its file has {} codes", codes.len()));
        }
        self.outcome.codes += codes.len();
        let seen = &mut self.seen[batch.id_type];
        if let Some(again) = codes.iter().find(|code| !seen.insert((**code).to_owned())) {
            return Err(format!("{again} came twice"));
        }
        let (tenant, name) = TYPES[batch.id_type];
        for code in codes.iter().step_by(codes.len().div_ceil(SAMPLE).max(1)) {
            let scan = json!({"tenant": tenant, "type": name, "code": code});
            let verdict = self.http.post(&format!("{}/api/v1/scans", self.url), &scan, None);
            let verdict = verdict.map(|(_, body)| body["verdict"].clone()).unwrap_or_default();
            if verdict != expected {
                return Err(format!("its code {code} is {verdict} and should be {expected}"));
            }
            self.outcome.scans += 1;
        }
        Ok(())
    }
}
