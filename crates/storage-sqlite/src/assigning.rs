//! Giving documents their numbers.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{
    Assigned, Delivery, DocumentKey, DocumentOrder, Issue, IssueGroup, KnownDocument,
    KnownDocuments, NewDelivery, NewDocument, Numbers, Plan, ReceiverId, Span, StoreError, TypeId,
};

use crate::error::{StepResult, corrupt};
use crate::outbox::delivery_id;
use crate::ranges::without;
use crate::time::Millis;
use crate::types::mark_used;
use crate::{counters, draws, gaps, issues};

/// Gives documents of an order their numbers.
pub(crate) fn assign(
    connection: &Connection,
    order: &DocumentOrder,
) -> StepResult<Vec<Vec<Assigned>>> {
    let DocumentOrder { type_id, period, sink, claimed_until, now, .. } = order;
    counters::check_revision(connection, *type_id, order.revision)?;
    let known = known(connection, order)?;
    let plan = Plan::new(&order.requests, &known, room(connection, order)?);
    let numbers = take(connection, order, plan.new.len())?;
    if numbers.is_empty() {
        return Ok(plan.outcome(Vec::new()));
    }
    mark_used(connection, *type_id)?;
    let key_ids = plan.new.iter().map(|document| document.key_id);
    let serials = numbers.iter().map(|(serial, _)| *serial);
    log(connection, (*type_id, period), serials.zip(key_ids), *now)?;
    let post = Post::new(connection, *type_id, *sink, *claimed_until, *now)?;
    let mut deliveries = Vec::with_capacity(numbers.len());
    for (document, (serial, id)) in plan.new.iter().zip(numbers) {
        let key = DocumentKey { type_id: *type_id, period: period.clone(), serial };
        deliveries.push(post.put(connection, key, id, document)?);
    }
    Ok(plan.outcome(deliveries))
}

/// What is on record of an order's references and request keys.
fn known(connection: &Connection, order: &DocumentOrder) -> StepResult<KnownDocuments> {
    let mut known = KnownDocuments::default();
    for (place, document) in order.requests.iter().flatten().enumerate() {
        if let Some(found) = find_same(connection, order.type_id, document)? {
            known.insert(place, found);
        }
    }
    Ok(known)
}

/// The document that has the request key or the reference of another.
pub(crate) fn find_same(
    connection: &Connection,
    type_id: TypeId,
    document: &NewDocument,
) -> StepResult<Option<KnownDocument>> {
    let NewDocument { payload, reference, request_key, .. } = document;
    if let Some(request_key) = request_key
        && let Some(found) = find(connection, "request_key = ?2", params![payload, request_key])?
    {
        return Ok(Some(found));
    }
    let Some(reference) = reference else { return Ok(None) };
    let by_reference = "type_id = ?2 AND reference = ?3";
    find(connection, by_reference, params![payload, type_id.0, reference])
}

fn find(
    connection: &Connection,
    condition: &str,
    params: impl rusqlite::Params,
) -> StepResult<Option<KnownDocument>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT documents.delivery, key, body = ?1 FROM documents
             CROSS JOIN contents ON contents.delivery = documents.delivery WHERE {condition}"
        ))?
        .query_one(params, |row| {
            Ok(KnownDocument {
                delivery: delivery_id(row.get(0)?),
                id: row.get(1)?,
                is_same: row.get(2)?,
            })
        })
        .optional()?;
    Ok(found)
}

/// Where the counter of an order stands.
fn next(connection: &Connection, order: &DocumentOrder, bounds: (u64, u64)) -> StepResult<u64> {
    let next = counters::next(connection, order.type_id, &order.period)?;
    Ok(next.unwrap_or(bounds.0))
}

/// How many numbers there are.
fn room(connection: &Connection, order: &DocumentOrder) -> StepResult<usize> {
    match &order.numbers {
        Numbers::Drawn { ids, .. } => Ok(ids.len()),
        Numbers::Counter { bounds, .. } => {
            let left = bounds.1.saturating_sub(next(connection, order, *bounds)?);
            Ok(usize::try_from(left).unwrap_or(usize::MAX))
        }
    }
}

/// Takes numbers off the draws, or from the counter.
fn take(
    connection: &Connection,
    order: &DocumentOrder,
    count: usize,
) -> StepResult<Vec<(u64, String)>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    match &order.numbers {
        Numbers::Drawn { holder, ids } => {
            let ids = &ids[..count];
            for run in ids.chunk_by(|a, b| a.0 + 1 == b.0) {
                let serials = run[0].0..run[run.len() - 1].0 + 1;
                take_drawn(connection, order, holder, serials)?;
            }
            Ok(ids.to_vec())
        }
        Numbers::Counter { bounds, render } => {
            let start = next(connection, order, *bounds)?;
            let serials = start..start + count as u64;
            counters::move_to(connection, order.type_id, &order.period, serials.clone())?;
            let ids = render(serials.clone());
            if ids.len() != count {
                return Err(corrupt(format!("{} of {count} serials have an ID", ids.len())));
            }
            Ok(serials.zip(ids).collect())
        }
    }
}

/// Takes serials off the draws of a holder. What it does not hold any more was taken for lost, or is
/// somebody else's.
fn take_drawn(
    connection: &Connection,
    order: &DocumentOrder,
    holder: &str,
    serials: Range<u64>,
) -> StepResult<()> {
    let DocumentOrder { type_id, period, now, .. } = order;
    let span = Span { type_id: *type_id, period: period.clone(), serials };
    let taken = draws::take_off(connection, &span, Some(holder))?;
    for serials in without(&span.serials, taken.into_iter().map(|part| part.span.serials)) {
        let missing = Span { serials, ..span.clone() };
        if !gaps::find_again(connection, &missing, *now)? {
            return Err(StoreError::Stale.into());
        }
    }
    Ok(())
}

/// Writes the numbers of documents to the issue log, each with who asked. They are in order.
pub(crate) fn log(
    connection: &Connection,
    (type_id, period): (TypeId, &str),
    numbers: impl Iterator<Item = (u64, i64)>,
    now: Timestamp,
) -> StepResult<()> {
    let at_ms = now.as_millisecond();
    let all: Vec<Issue> = numbers
        .map(|(serial, key_id)| Issue { first: serial, last: serial, key_id, at_ms })
        .collect();
    for run in all.chunk_by(|a, b| a.last + 1 == b.first) {
        let serials = run[0].first..run[run.len() - 1].last + 1;
        let span = Span { type_id, period: period.to_owned(), serials };
        issues::write(connection, &IssueGroup { span, issues: run.to_vec() })?;
    }
    Ok(())
}

/// Puts documents of one type into the outbox.
pub(crate) struct Post {
    tenant: String,
    /// The name of the type.
    subject: String,
    sink: ReceiverId,
    claimed_until: Option<Timestamp>,
    now: Timestamp,
}

impl Post {
    pub(crate) fn new(
        connection: &Connection,
        type_id: TypeId,
        sink: ReceiverId,
        claimed_until: Option<Timestamp>,
        now: Timestamp,
    ) -> StepResult<Self> {
        let (tenant, subject) = connection
            .prepare_cached("SELECT tenant, name FROM id_types WHERE id = ?1")?
            .query_one([type_id.0], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?
            .ok_or(StoreError::NotFound("type"))?;
        Ok(Self { tenant, subject, sink, claimed_until, now })
    }

    /// Puts a document with its number on record.
    pub(crate) fn put(
        &self,
        connection: &Connection,
        key: DocumentKey,
        id: String,
        document: &NewDocument,
    ) -> StepResult<Delivery> {
        let Self { tenant, subject, sink, claimed_until, now } = self;
        // Whoever claims has begun the first attempt.
        let claims = u32::from(claimed_until.is_some());
        connection
            .prepare_cached(
                "INSERT INTO deliveries (tenant, receiver, type_id, attempts, token, due_at,
                     created_at)
                 VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)",
            )?
            .execute(params![
                tenant,
                sink.0,
                key.type_id.0,
                claims,
                Millis(claimed_until.unwrap_or(*now)),
                Millis(*now)
            ])?;
        let number = connection.last_insert_rowid();
        let NewDocument { payload, reference, request_key, key_id } = document;
        connection
            .prepare_cached(
                "INSERT INTO contents (delivery, key, subject, body) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![number, id, subject, payload])?;
        connection
            .prepare_cached(
                "INSERT INTO documents (delivery, type_id, period, serial, reference, request_key,
                     key_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                number,
                key.type_id.0,
                key.period,
                key.serial,
                reference,
                request_key,
                key_id
            ])?;
        let content = NewDelivery {
            receiver: *sink,
            key: id,
            subject: subject.clone(),
            body: payload.clone(),
        };
        Ok(Delivery {
            id: delivery_id(number),
            content,
            document: Some(key),
            attempt: claims,
            failures: 0,
            token: claims.into(),
            created_at: *now,
        })
    }
}
