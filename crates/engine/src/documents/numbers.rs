//! Numbers for documents, drawn ahead of demand and held by this instance until a step puts them on
//! record together with their documents.
//!
//! They are apart from the pools that IDs are issued from: what an assignment takes is accounted for by
//! the step that writes the document, and not by the issue log behind it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::{Draw, GapReason, IssueGroup, Span, StoreError, TypeId};
use tracing::warn;

use super::counter::Counter;
use super::serials::{Serials, runs};
use crate::LiveType;
use crate::error::IssueError;
use crate::issuing::Sizing;
use crate::surroundings::Common;

/// For how long numbers that nobody takes are held, in milliseconds.
const IDLE_MS: i64 = 1000;

/// Serials of one counter that are held.
struct Held {
    counter: Counter,
    serials: Serials,
    /// Serials of the last draw, and when it was made.
    drawn: usize,
    drawn_at_ms: Option<i64>,
    /// When some were last taken.
    taken_at_ms: i64,
}

/// Numbers for documents.
pub(super) struct DocumentNumbers {
    common: Common,
    instance: String,
    /// By type. A type has one counter at a time.
    held: Mutex<HashMap<TypeId, Held>>,
    /// What came back when its counter was not in use any more, until it is given back.
    left: Mutex<Vec<Span>>,
    /// What failed steps may have lost, until the store says what became of it.
    in_doubt: Mutex<Vec<Span>>,
    /// Serials without IDs, until the store knows.
    rejected: Mutex<Vec<Span>>,
}

impl DocumentNumbers {
    pub(super) fn new(common: Common, instance: String) -> Self {
        let (held, left) = (Mutex::default(), Mutex::default());
        let (in_doubt, rejected) = (Mutex::default(), Mutex::default());
        Self { common, instance, held, left, in_doubt, rejected }
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// The next IDs of a counter with their serials, in order. Fewer only if there are no more.
    pub(super) async fn take(
        &self,
        live: &LiveType,
        counter: &Counter,
        count: usize,
    ) -> Result<Vec<(u64, String)>, IssueError> {
        let type_id = live.stored().id;
        self.leave_other_counters(type_id, counter).await;
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let wanted = count - ids.len();
            let Some(serials) = self.next_held(type_id, counter, wanted) else {
                match self.draw(live, counter, wanted).await {
                    Ok(true) => continue,
                    Ok(false) => break,
                    Err(problem) => {
                        self.put_back(type_id, counter, &ids);
                        return Err(problem);
                    }
                }
            };
            let before = ids.len();
            counter.write(live, serials.clone(), &mut ids);
            self.note_rejected(type_id, counter, serials, &ids[before..]);
        }
        Ok(ids)
    }

    /// Serials that a filter rejects will never be assigned, and are not lost either.
    fn note_rejected(
        &self,
        type_id: TypeId,
        counter: &Counter,
        serials: Range<u64>,
        ids: &[(u64, String)],
    ) {
        let mut rejected = lock(&self.rejected);
        let mut start = serials.start;
        let ends = ids.iter().map(|(serial, _)| *serial).chain([serials.end]);
        for end in ends {
            if start < end {
                let period = counter.period().to_owned();
                rejected.push(Span { type_id, period, serials: start..end });
            }
            start = end + 1;
        }
    }

    /// Puts back IDs that were not used. What was held of their counter may have been given back meanwhile.
    pub(super) fn put_back(&self, type_id: TypeId, counter: &Counter, ids: &[(u64, String)]) {
        for run in runs(ids.iter().map(|(serial, _)| *serial)) {
            self.add(type_id, counter, run);
        }
    }

    /// Holds serials, or leaves them to be given back if another counter of the type is in use.
    fn add(&self, type_id: TypeId, counter: &Counter, serials: Range<u64>) -> bool {
        let mut held = self.lock();
        let held = held.entry(type_id).or_insert_with(|| Held {
            counter: counter.clone(),
            serials: Serials::default(),
            drawn: 0,
            drawn_at_ms: None,
            taken_at_ms: self.common.now().as_millisecond(),
        });
        let is_same = held.counter.is_same(counter);
        if is_same {
            held.serials.add(serials);
        } else {
            let period = counter.period().to_owned();
            lock(&self.left).push(Span { type_id, period, serials });
        }
        is_same
    }

    fn next_held(&self, type_id: TypeId, counter: &Counter, wanted: usize) -> Option<Range<u64>> {
        let mut held = self.lock();
        let held = held.get_mut(&type_id).filter(|held| held.counter.is_same(counter))?;
        held.taken_at_ms = self.common.now().as_millisecond();
        held.serials.take(wanted)
    }

    /// Gives back what nobody has taken for a while, so that others can have it.
    pub(super) async fn return_idle(&self) {
        let idle_since_ms = self.common.now().as_millisecond() - IDLE_MS;
        let idle: Vec<(TypeId, Held)> = {
            let is_idle = |_: &TypeId, held: &mut Held| held.taken_at_ms < idle_since_ms;
            self.lock().extract_if(is_idle).collect()
        };
        for (type_id, held) in idle {
            self.give_back(type_id, held).await;
        }
        self.give_back_left().await;
    }

    async fn give_back_left(&self) {
        let mut left = std::mem::take(&mut *lock(&self.left));
        left.sort_by_key(|span| Reverse(span.serials.start));
        for span in left {
            self.give_back_span(span).await;
        }
    }

    /// Draws more. False if there are no more.
    async fn draw(
        &self,
        live: &LiveType,
        counter: &Counter,
        wanted: usize,
    ) -> Result<bool, IssueError> {
        let (type_id, now) = (live.stored().id, self.common.now());
        let now_ms = now.as_millisecond();
        let size = {
            let held = self.lock();
            let held = held.get(&type_id);
            let lasted_ms = held.and_then(|held| Some(now_ms - held.drawn_at_ms?));
            // Nothing is drawn ahead while demand is low: so numbers come in order whichever instance is
            // asked, and a crash costs none.
            Sizing::in_company().next(held.map_or(0, |held| held.drawn), lasted_ms)
        };
        let draw = Draw {
            type_id,
            period: counter.period(),
            count: size.max(wanted) as u64,
            bounds: counter.bounds(),
            holder: &self.instance,
            revision: live.stored().revision,
            now,
        };
        let drawn = self.common.store.draw(draw).await.map_err(|error| match error {
            StoreError::Stale | StoreError::NotFound(_) => IssueError::Closed,
            other => other.into(),
        })?;
        if drawn.is_empty() {
            return Ok(false);
        }
        self.common.metrics.serials_drawn.inc_by(drawn.end - drawn.start);
        if !self.add(type_id, counter, drawn) {
            // Somebody asks for another period or for changed settings at the same moment.
            return Err(IssueError::Closed);
        }
        if let Some(held) = self.lock().get_mut(&type_id) {
            (held.drawn, held.drawn_at_ms) = (size, Some(now_ms));
        }
        Ok(true)
    }

    /// Gives up what is held of another counter of the type: one of a period that is over, or of settings
    /// that were changed.
    async fn leave_other_counters(&self, type_id: TypeId, counter: &Counter) {
        let other = {
            let mut held = self.lock();
            match held.get(&type_id) {
                Some(held) if !held.counter.is_same(counter) => {}
                _ => return,
            }
            held.remove(&type_id)
        };
        if let Some(other) = other {
            self.give_back(type_id, other).await;
        }
    }

    async fn give_back(&self, type_id: TypeId, held: Held) {
        for serials in held.serials.highest_first() {
            let period = held.counter.period().to_owned();
            self.give_back_span(Span { type_id, period, serials }).await;
        }
    }

    async fn give_back_span(&self, span: Span) {
        let (store, now) = (&self.common.store, self.common.now());
        if let Err(problem) = store.give_back(&span, &self.instance, now).await {
            // Not found: somebody took this instance for gone and has recorded some as lost.
            if !matches!(problem, StoreError::NotFound(_)) {
                warn!("cannot give back numbers for documents: {problem}");
            }
            lock(&self.in_doubt).push(span);
        }
    }

    /// Gives up all that is held.
    pub(super) async fn close(&self) {
        let held = std::mem::take(&mut *self.lock());
        for (type_id, held) in held {
            self.give_back(type_id, held).await;
        }
        self.give_back_left().await;
        if let Err(problem) = self.settle_doubts().await {
            warn!("cannot say which numbers of documents were lost: {problem}");
        }
    }

    /// Gives up what is held of a type, and what a step could not use: the type was changed, or this
    /// instance was taken for gone.
    pub(super) async fn leave(&self, type_id: TypeId, counter: &Counter, ids: &[(u64, String)]) {
        self.put_back(type_id, counter, ids);
        let held = self.lock().remove(&type_id);
        if let Some(held) = held {
            self.give_back(type_id, held).await;
        }
    }

    /// Notes that a step failed whose numbers may or may not be on record.
    pub(super) fn doubt(&self, type_id: TypeId, period: &str, ids: &[(u64, String)]) {
        let runs = runs(ids.iter().map(|(serial, _)| *serial)).into_iter();
        let spans = runs.map(|serials| Span { type_id, period: period.to_owned(), serials });
        lock(&self.in_doubt).extend(spans);
    }

    /// Tells the store which serials have no IDs, and has it find out what became of failed steps. Where one
    /// of these fails, the other is done all the same.
    pub(super) async fn settle_doubts(&self) -> Result<(), StoreError> {
        let told = self.tell_rejected().await;
        self.close_doubts().await.and(told)
    }

    async fn tell_rejected(&self) -> Result<(), StoreError> {
        let rejected = lock(&self.rejected).clone();
        if rejected.is_empty() {
            return Ok(());
        }
        let group = |span: &Span| IssueGroup { span: span.clone(), issues: Vec::new() };
        let groups: Vec<_> = rejected.iter().map(group).collect();
        self.common.store.record_issues(&groups).await?;
        lock(&self.rejected).drain(..rejected.len());
        Ok(())
    }

    /// What is still with this instance was never put on record, and is lost.
    async fn close_doubts(&self) -> Result<(), StoreError> {
        let spans = std::mem::take(&mut *lock(&self.in_doubt));
        if spans.is_empty() {
            return Ok(());
        }
        let (reason, now) = (GapReason::UntrackedLoss, self.common.now());
        match self.common.store.close_draws(&self.instance, &spans, reason, now).await {
            Ok(gaps) => {
                let lost: u64 =
                    gaps.iter().map(|gap| gap.span.serials.end - gap.span.serials.start).sum();
                if lost > 0 {
                    warn!(lost, "{lost} numbers of documents were lost in steps that failed");
                }
                Ok(())
            }
            Err(problem) => {
                lock(&self.in_doubt).extend(spans);
                Err(problem)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TypeId, Held>> {
        lock(&self.held)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
