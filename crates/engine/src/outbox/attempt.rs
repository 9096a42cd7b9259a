//! One attempt at a delivery.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use storage::{Attempt, Delivery, Next, Outcome, ReceiverId};
use tokio::time::{Instant, timeout};
use tracing::{debug, error, warn};

use super::{LiveReceiver, Outbox, Reply};
use crate::webhooks;

/// The longest that a receiver can put off the next attempt.
const PUT_OFF_MAX: Duration = Duration::from_secs(24 * 3600);

/// Says that a receiver wants no more.
const GONE: u16 = 410;

/// An attempt that is over.
pub(super) struct Done {
    pub(super) receiver: ReceiverId,
    pub(super) worked: bool,
    pub(super) outcome: Outcome,
}

/// Makes an attempt.
pub(super) async fn attempt(
    outbox: Arc<Outbox>,
    receiver: Arc<LiveReceiver>,
    delivery: Delivery,
) -> Done {
    let (at, began) = (outbox.common.now(), Instant::now());
    let letter = webhooks::letter(&receiver, &delivery, at);
    let reply = match timeout(outbox.settings.timeout, outbox.carrier.post(letter)).await {
        Ok(reply) => reply,
        Err(_) => Err(format!("no answer within {:?}", outbox.settings.timeout)),
    };
    let (status, error, put_off) = judged(reply);
    if status == Some(GONE) {
        outbox.receivers.disable(&receiver, "it answered 410 Gone").await;
    }
    let worked = error.is_none();
    let next = if worked {
        Next::Delivered
    } else if status == Some(GONE) {
        Next::Dead
    } else {
        outbox.next_attempt(delivery.attempt, put_off)
    };
    report(&outbox, &receiver, &delivery, error.as_deref(), next);
    let number = delivery.attempt;
    let attempt = Attempt { number, at, duration: began.elapsed(), status, error };
    let outcome = Outcome { delivery: delivery.id, token: delivery.token, attempt, next };
    Done { receiver: receiver.id(), worked, outcome }
}

/// The status, why it is a failure, and how long the receiver wants to be left alone.
fn judged(reply: Result<Reply, String>) -> (Option<u16>, Option<String>, Option<Duration>) {
    match reply {
        Ok(Reply { status: status @ 200..=299, .. }) => (Some(status), None, None),
        Ok(Reply { status, retry_after }) => {
            (Some(status), Some(format!("the answer was {status}")), retry_after)
        }
        Err(problem) => (None, Some(problem), None),
    }
}

impl Outbox {
    fn next_attempt(&self, attempt: u32, put_off: Option<Duration>) -> Next {
        let Some(delay) = self.settings.backoff.delay(attempt, &*self.common.entropy) else {
            return Next::Dead;
        };
        let delay = delay.max(put_off.unwrap_or_default().min(PUT_OFF_MAX));
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        Next::Retry(self.common.now().checked_add(delay).unwrap_or(Timestamp::MAX))
    }
}

fn report(
    outbox: &Outbox,
    receiver: &LiveReceiver,
    delivery: &Delivery,
    error: Option<&str>,
    next: Next,
) {
    let (id, to, attempt) = (delivery.id.0, receiver.name(), delivery.attempt);
    let Some(problem) = error else {
        outbox.common.metrics.deliveries_made.inc();
        debug!(delivery = id, "delivery {id} has reached {to}");
        return;
    };
    outbox.common.metrics.deliveries_failed.inc();
    if next == Next::Dead {
        outbox.common.metrics.deliveries_dead.inc();
        error!(delivery = id, attempt, "delivery {id} to {to} failed for good: {problem}");
    } else {
        warn!(delivery = id, attempt, "delivery {id} to {to} failed: {problem}");
    }
}
