//! Numbers that are taken from the counter in the step that puts their documents on record.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::{Assigned, Render, Result, TypeId};
use tokio_postgres::types::Type;

use super::assign::{Assignment, CLAIMED_ALONE};
use super::columns::{ASSIGN, Columns, Source};
use super::usual::TAKE_NEXT;
use crate::PostgresStore;
use crate::counters::{DRAW, read_draw};
use crate::database::Repeat;
use crate::error::{self, corrupt};
use crate::outbox::consignments::TOKEN as CLAIMED_TOGETHER;
use crate::session::{Keep, Param};
use crate::spans::write_serial;

/// Where counters stand, as far as this instance knows: the period and the next serial of each type.
///
/// It is a guess, which is right as long as nobody else takes numbers of the type. Then the IDs are
/// written beforehand, and a group of documents is one statement that locks the counter for no longer
/// than its commit takes.
#[derive(Default)]
pub(crate) struct Stands(Mutex<HashMap<TypeId, (String, u64)>>);

impl Stands {
    fn lock(&self) -> MutexGuard<'_, HashMap<TypeId, (String, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, type_id: TypeId, period: &str) -> Option<u64> {
        let stands = self.lock();
        stands.get(&type_id).filter(|(known, _)| known == period).map(|(_, next)| *next)
    }

    fn set(&self, type_id: TypeId, period: &str, next: u64) {
        self.lock().insert(type_id, (period.to_owned(), next));
    }

    fn forget(&self, type_id: TypeId) {
        self.lock().remove(&type_id);
    }
}

/// The IDs of so many serials. They are few, and quickly written.
fn write_ids(render: &Render, next: u64, count: usize) -> Result<Vec<(u64, String)>> {
    let serials = next..next + count as u64;
    let ids = render(serials.clone());
    if ids.len() != count {
        return Err(corrupt("a counter that has no gaps has serials without IDs"));
    }
    Ok(serials.zip(ids).collect())
}

impl PostgresStore {
    /// Tries where the counter should stand, and if it does not, with the counter locked.
    pub(super) async fn take_from_counter(
        &self,
        assignment: &Assignment<'_>,
        bounds: (u64, u64),
        render: &Render,
    ) -> Result<Option<Vec<Vec<Assigned>>>> {
        let order = assignment.order;
        if let Some(next) = self.stands.get(order.type_id, &order.period) {
            self.stands.forget(order.type_id);
            let guessed = self.take_at(assignment, bounds, render, next).await?;
            if guessed.is_some() {
                return Ok(guessed);
            }
        }
        let shard = assignment.shard;
        let locked = self.take_locked(assignment, bounds, render);
        shard.within(shard.limits.step, locked).await
    }

    /// Takes numbers if the counter stands where it should. Never repeated without knowing: documents
    /// without a key would be there twice.
    async fn take_at(
        &self,
        assignment: &Assignment<'_>,
        bounds: (u64, u64),
        render: &Render,
        next: u64,
    ) -> Result<Option<Vec<Vec<Assigned>>>> {
        let order = assignment.order;
        let Some(plan) = assignment.plan(bounds.1.saturating_sub(next)) else { return Ok(None) };
        let count = plan.new.len();
        let Some(sql) = TAKE_NEXT.of(order, count).filter(|_| count > 0) else { return Ok(None) };
        let ids = write_ids(render, next, count)?;
        let source =
            Source { holder: None, bounds: (write_serial(bounds.0)?, write_serial(bounds.1)?) };
        let columns = Columns::new(order, source, &plan.new, &ids)?;
        let rows = assignment.shard.query(Repeat::Undone, sql, &columns.params()).await?;
        let assigned = assignment.outcome(plan, &ids, &rows, CLAIMED_TOGETHER)?;
        if assigned.is_some() {
            self.stands.set(order.type_id, &order.period, next + count as u64);
        }
        Ok(assigned)
    }

    async fn take_locked(
        &self,
        assignment: &Assignment<'_>,
        bounds: (u64, u64),
        render: &Render,
    ) -> Result<Option<Vec<Vec<Assigned>>>> {
        let failed = |error: tokio_postgres::Error| error::from_database(&error);
        let (order, shard) = (assignment.order, assignment.shard);
        let bounds_written = (write_serial(bounds.0)?, write_serial(bounds.1)?);
        let nobody: Option<&str> = None;
        let params: [Param<'_>; 7] = [
            (&order.type_id.0, Type::INT8),
            (&order.period, Type::TEXT),
            (&0_i64, Type::INT8),
            (&bounds_written.0, Type::INT8),
            (&bounds_written.1, Type::INT8),
            (&nobody, Type::TEXT),
            (&order.revision, Type::INT8),
        ];
        let mut session = shard.session().await?;
        let step_ms = shard.limits.step.as_millis();
        let rows = session.begin_with(step_ms, step_ms, DRAW, &params).await.map_err(failed)?;
        let next = read_draw(&rows)?.start;
        let Some(plan) = assignment.plan(bounds.1.saturating_sub(next)) else {
            session.roll_back().await.map_err(failed)?;
            return Ok(None);
        };
        if plan.new.is_empty() {
            session.roll_back().await.map_err(failed)?;
            return Ok(Some(plan.outcome(Vec::new())));
        }
        let ids = write_ids(render, next, plan.new.len())?;
        let source = Source { holder: None, bounds: bounds_written };
        let columns = Columns::new(order, source, &plan.new, &ids)?;
        let rows =
            session.query(Keep::Prepared, ASSIGN, &columns.params()).await.map_err(failed)?;
        if rows.is_empty() {
            session.roll_back().await.map_err(failed)?;
            return Ok(None);
        }
        session.commit().await.map_err(failed)?;
        self.stands.set(order.type_id, &order.period, next + plan.new.len() as u64);
        assignment.outcome(plan, &ids, &rows, CLAIMED_ALONE)
    }
}
