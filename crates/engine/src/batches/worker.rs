//! Making codes: a worker claims a chunk, has it written, and looks for the next.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::SignedDuration;
use storage::{Chunk, ClaimTerms, Now, StoreError, WorkerName};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::{BatchSettings, Batches};
use crate::surroundings::Entropy;

/// How often a worker looks for chunks that nobody was called to: whose time has come, whose worker is gone,
/// or whose tenant's turn got lost.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The same while nobody tells of the orders that other instances take. Work has to start within a
/// tenth of a second.
const LOOK_FOR_ORDERS_EVERY: Duration = Duration::from_millis(50);

/// The longest wait between two attempts at a chunk.
const RETRY_MAX: SignedDuration = SignedDuration::from_hours(24);

/// How long to wait while the store does not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a worker stays with a chunk whose part of the store does not answer. Other parts may have work.
/// It gets the chunk again, as the same attempt, as soon as it can be had.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why a worker could not do something.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the worker panicked")]
    Panic,
}

impl Trouble {
    /// What its tenant is told. What a store says can name tables and files, so it goes to the log only.
    fn class(&self) -> &'static str {
        match self {
            Self::Store(error) if error.is_unavailable() => "the store was unavailable",
            Self::Store(_) => "the store did not take the codes; the server's log says why",
            Self::Panic => "the worker panicked; the server's log says why",
        }
    }
}

/// Does something that may panic. Nobody would start another worker in the place of this one.
async fn caught<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Trouble> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    Ok(ended.map_err(|_| Trouble::Panic)??)
}

/// One worker of this instance.
pub(crate) struct Worker {
    batches: Arc<Batches>,
    entropy: Arc<dyn Entropy>,
    /// In the records of chunks.
    name: WorkerName,
    /// When it last looked for chunks of anybody, and whether it has tried for a turn since.
    looked_at: Instant,
    tried_turn: bool,
}

impl Worker {
    pub(crate) fn new(batches: Arc<Batches>, entropy: Arc<dyn Entropy>, name: WorkerName) -> Self {
        Self { batches, entropy, name, looked_at: Instant::now(), tried_turn: false }
    }

    /// Works until told to stop. A chunk that was begun is finished first.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let work = Arc::clone(&self.batches.work);
        let mut failing = false;
        let mut turn = None;
        while !*stop.borrow() {
            // Before the look, so that an order which comes right after it is not missed.
            let woken = work.notified();
            let pause = match caught(self.step(turn.take(), &stop)).await {
                Ok(worked) => {
                    failing = false;
                    match worked {
                        true => Duration::ZERO,
                        false if self.hears_of_orders() => LOOK_EVERY,
                        false => LOOK_FOR_ORDERS_EVERY,
                    }
                }
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!("cannot look for batches to work on: {problem}");
                    }
                    PAUSE
                }
            };
            if pause.is_zero() {
                continue;
            }
            tokio::select! {
                () = woken => {}
                next = self.batches.turns.wait(&self.name, pause) => turn = next,
                _ = stop.changed() => {}
            }
        }
        if let Some(tenant) = turn {
            self.batches.turns.end(&self.name, &tenant, true).await;
        }
    }

    fn hears_of_orders(&self) -> bool {
        self.batches.turns.are_heard() || self.batches.store.hears_of_orders()
    }

    /// Does one chunk, of the tenant whose turn was waited for if there was one. False if there is none
    /// to do.
    async fn step(
        &mut self,
        turn: Option<String>,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool, StoreError> {
        let Some(chunk) = self.claim(turn).await? else { return Ok(false) };
        let metrics = &self.batches.metrics;
        let (batch, number) = (chunk.batch.0, chunk.number);
        // A chunk at which a worker panics has failed like others, and is a dead letter in the end.
        match caught(self.finish(&chunk, stop)).await {
            Ok(true) => {
                metrics.codes_made.inc_by(chunk.serials.end - chunk.serials.start);
                debug!(batch, number, "batch {batch}: chunk {number} is done");
                self.batches.news.notify_one();
            }
            Ok(false) => info!(batch, number, "batch {batch}: chunk {number} is no longer ours"),
            // Nothing was tried. It is on record as ours, and is the next one if it can be had by then.
            Err(Trouble::Store(StoreError::NoConnection(_))) => {}
            Err(problem) => {
                metrics.chunks_failed.inc();
                self.report(&chunk, &problem, stop).await;
            }
        }
        Ok(true)
    }

    /// Finds something to do: for those whose turn it is, and where that is nobody's, for anybody. A chunk
    /// that waited for its time has no turn, nor has one whose turn got lost, so anybody is looked for now
    /// and then in any case, though never twice in a row: the store knows who was served least recently.
    async fn claim(&mut self, turn: Option<String>) -> Result<Option<Chunk>, StoreError> {
        let is_due = self.tried_turn && self.looked_at.elapsed() >= LOOK_EVERY;
        self.tried_turn = !is_due;
        let Batches { store, turns, catalogue, .. } = &*self.batches;
        if !is_due {
            if let Some(chunk) = self.claim_in_turn(turn).await? {
                return Ok(Some(chunk));
            }
        } else if let Some(tenant) = turn {
            turns.end(&self.name, &tenant, true).await;
        }
        let chunk = store.claim_chunk(&self.name, None, self.terms()).await;
        self.looked_at = Instant::now();
        let chunk = chunk?;
        if let Some(live) = chunk.as_ref().and_then(|chunk| catalogue.by_id(chunk.type_id)) {
            turns.offer(&[live.stored().id_type.tenant()]).await;
        }
        Ok(chunk)
    }

    /// Finds something to do for somebody whose turn it is.
    async fn claim_in_turn(&self, mut turn: Option<String>) -> Result<Option<Chunk>, StoreError> {
        let Batches { store, turns, .. } = &*self.batches;
        loop {
            if turn.is_none() {
                turn = turns.take(&self.name).await;
            }
            let Some(tenant) = turn.take() else { return Ok(None) };
            let chunk = store.claim_chunk(&self.name, Some(&tenant), self.terms()).await;
            // Before the work, so that others can work for the same tenant. Where the claim failed, a look
            // finds the tenant again when its part of the store is back.
            turns.end(&self.name, &tenant, matches!(chunk, Ok(Some(_)))).await;
            if let Some(chunk) = chunk? {
                return Ok(Some(chunk));
            }
        }
    }

    fn terms(&self) -> ClaimTerms {
        let BatchSettings { silent, backoff, .. } = self.batches.settings;
        ClaimTerms { silent, attempts_max: backoff.retries + 1, now: self.batches.clock.now() }
    }

    /// Has a chunk written. As long as the store cannot even be asked, the chunk has not failed, so that
    /// it does not use up its attempts while others have all connections.
    async fn finish(
        &self,
        chunk: &Chunk,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool, StoreError> {
        let Batches { store, clock, .. } = &*self.batches;
        let (batch, number) = (chunk.batch.0, chunk.number);
        let mut since = None;
        loop {
            let clock = Arc::clone(clock);
            let now: Now = Arc::new(move || clock.now());
            let problem = match store.finish_chunk(chunk, now).await {
                Err(problem @ StoreError::NoConnection(_)) if !*stop.borrow() => problem,
                finished => return finished,
            };
            if since.is_none() {
                info!(batch, number, "batch {batch}: chunk {number} has to wait: {problem}");
            }
            if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(problem);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Says that a chunk failed. Where that cannot be said, it has not: the worker gets it again.
    async fn report(&self, chunk: &Chunk, problem: &Trouble, stop: &watch::Receiver<bool>) {
        let (batch, number, attempt) = (chunk.batch.0, chunk.number, chunk.attempt);
        let delay = self.batches.settings.backoff.delay(attempt, &*self.entropy);
        let delay = delay.map(|delay| SignedDuration::try_from(delay).unwrap_or(RETRY_MAX));
        if let Some(delay) = delay {
            warn!(
                batch,
                number,
                attempt,
                "batch {batch}: chunk {number} failed and is tried again in {delay:?}: {problem}"
            );
        } else {
            error!(batch, number, "batch {batch}: chunk {number} failed for good: {problem}");
        }
        let since = Instant::now();
        loop {
            let now = self.batches.clock.now();
            let retry_at = delay.map(|delay| now + delay);
            match self.batches.store.fail_chunk(chunk, problem.class(), retry_at, now).await {
                Ok(true) => {
                    self.batches.news.notify_one();
                    return;
                }
                Ok(false) => {
                    info!(batch, number, "batch {batch}: chunk {number} is no longer ours");
                    return;
                }
                Err(problem) if *stop.borrow() || since.elapsed() > PATIENCE => {
                    warn!(batch, number, "cannot say that chunk {number} failed: {problem}");
                    return;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
