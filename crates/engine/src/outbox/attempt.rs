//! Attempts at deliveries.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use storage::{Attempt, Delivery, Next, Outcome};
use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::late::within;
use super::{
    CLAIM_MARGIN, Freight, Letter, LiveReceiver, Method, NewFile, Outbox, Reply, Target,
    WriteOrder, signing,
};
use crate::documents::Place;

/// The longest that a receiver can put off the next attempt.
const PUT_OFF_MAX: Duration = Duration::from_secs(24 * 3600);

/// An attempt begins so long after the claim at most, where several follow each other: then it is over
/// and written down before the claim ends and another instance begins again.
const TRIP_MAX: Duration = Duration::from_secs(CLAIM_MARGIN.as_secs() / 2);

/// Says that a receiver wants no more.
const GONE: u16 = 410;

/// An attempt that is over.
pub(super) struct Done {
    pub(super) receiver: Arc<LiveReceiver>,
    /// Whether the receiver works; none if that is not known.
    pub(super) worked: Option<bool>,
    pub(super) outcome: Outcome,
    /// The room that it takes up until it is written down.
    pub(super) freight: Freight,
}

/// How an attempt went, before anybody has thought about what follows.
#[derive(Debug)]
struct Verdict {
    status: Option<u16>,
    error: Option<String>,
    put_off: Option<Duration>,
    /// Whether another attempt with the same content could go better.
    worth_retrying: bool,
}

impl Verdict {
    fn failed(error: String) -> Self {
        Self { status: None, error: Some(error), put_off: None, worth_retrying: true }
    }
}

/// Makes attempts: all at once where the receiver takes files, and otherwise one after the other. In
/// order, where that matters: what follows a failure is not tried.
pub(super) async fn attempt_all(
    outbox: Arc<Outbox>,
    receiver: Arc<LiveReceiver>,
    deliveries: Vec<Delivery>,
) -> Vec<Done> {
    if receiver.is_gone() || !receiver.is_in_use() {
        return refuse_all(&outbox, &receiver, deliveries).await;
    }
    if let Target::Sink(sink) = &receiver.target
        && let Place::Directory { path } = &sink.place
    {
        return write_all(&outbox, &receiver, path, deliveries).await;
    }
    let mut done = Vec::with_capacity(deliveries.len());
    let (mut failed, set_out) = (false, Instant::now());
    for delivery in deliveries {
        if (failed && receiver.is_ordered()) || set_out.elapsed() > TRIP_MAX {
            done.push(untried(&outbox, &receiver, &delivery));
            continue;
        }
        let (at, began) = (outbox.common.now(), Instant::now());
        let verdict = post(&outbox, &receiver, &delivery, at).await;
        failed |= verdict.error.is_some();
        done.push(outbox.judge(&receiver, &delivery, verdict, (at, began.elapsed())).await);
    }
    done
}

/// Makes dead letters of what came too late for a receiver that was deleted or disabled.
async fn refuse_all(
    outbox: &Outbox,
    receiver: &Arc<LiveReceiver>,
    deliveries: Vec<Delivery>,
) -> Vec<Done> {
    let at = outbox.common.now();
    let mut done = Vec::with_capacity(deliveries.len());
    for delivery in deliveries {
        let why = if receiver.is_gone() { "deleted" } else { "disabled" };
        let error = format!("{} was {why}", receiver.name());
        let verdict = Verdict { worth_retrying: false, ..Verdict::failed(error) };
        done.push(outbox.judge(receiver, &delivery, verdict, (at, Duration::ZERO)).await);
    }
    done
}

async fn post(
    outbox: &Arc<Outbox>,
    receiver: &LiveReceiver,
    delivery: &Delivery,
    now: Timestamp,
) -> Verdict {
    let Some(letter) = letter(receiver, delivery, now) else {
        return Verdict::failed("the receiver has no address".to_owned());
    };
    let settings = outbox.settings(receiver.stored().receiver.purpose);
    let (carrier, began) = (Arc::clone(&outbox.carrier), Instant::now());
    let reply = match within(settings.timeout, async move { carrier.post(letter).await }).await {
        Ok(reply) => reply,
        Err(going_on) => {
            let (id, number) = (delivery.id, delivery.attempt);
            if receiver.is_ordered() {
                // It must not arrive behind those that follow.
                going_on.abort();
            } else {
                outbox.follow(going_on, move |reply| {
                    let taken = reply.ok().filter(Reply::is_success);
                    let arrived = |reply: Reply| success(number, now, began, Some(reply.status));
                    taken.map(|reply| (id, arrived(reply))).into_iter().collect()
                });
            }
            Err(format!("no answer within {:?}", settings.timeout))
        }
    };
    match reply {
        Ok(reply) if reply.is_success() => {
            Verdict { status: Some(reply.status), error: None, put_off: None, worth_retrying: true }
        }
        Ok(Reply { status, retry_after }) => Verdict {
            status: Some(status),
            error: Some(format!("the answer was {status}")),
            put_off: retry_after,
            worth_retrying: !judges_content(receiver) || is_passing(status),
        },
        Err(problem) => Verdict::failed(problem),
    }
}

/// Whether what a receiver rejects is the content: a sink that does so will do it again. A webhook may
/// only be misconfigured, and so may the keys of a bucket, which takes whatever it is given.
fn judges_content(receiver: &LiveReceiver) -> bool {
    matches!(&receiver.target, Target::Sink(sink) if matches!(sink.place, Place::Http { .. }))
}

/// An attempt that has gone well.
fn success(number: u32, at: Timestamp, began: Instant, status: Option<u16>) -> Attempt {
    Attempt { number, at, duration: began.elapsed(), status, error: None }
}

/// Whether a status says something about the moment, and not about the request.
fn is_passing(status: u16) -> bool {
    !(400..500).contains(&status) || matches!(status, 408 | 425 | 429)
}

/// A delivery as it is sent: every secret that is in force signs it.
pub(crate) fn letter(
    receiver: &LiveReceiver,
    delivery: &Delivery,
    now: Timestamp,
) -> Option<Letter> {
    let content = &delivery.content;
    let url = match &receiver.target {
        Target::Webhook(webhook) => webhook.url.clone(),
        Target::Sink(sink) => match &sink.place {
            Place::Http { url } => url.clone(),
            Place::Bucket(_) => {
                let url = receiver.bucket.as_ref()?.address(&content.subject, &content.key, now);
                let body = content.body.clone();
                return Some(Letter { method: Method::Put, url, headers: Vec::new(), body });
            }
            Place::Directory { .. } => return None,
        },
    };
    let in_force = receiver.secrets.iter().filter(|secret| secret.is_in_force(now));
    let secrets = in_force.map(|secret| &secret.key);
    if delivery.document.is_none() {
        let headers = signing::headers(&content.key, now, &content.body, secrets);
        return Some(Letter { method: Method::Post, url, headers, body: content.body.clone() });
    }
    let (project, type_name) = (receiver.tenant(), content.subject.as_str());
    // Types can have equal IDs, and what is signed must say which one is meant.
    let message = format!("{project}/{type_name}/{}", content.key);
    let mut headers = signing::headers(&message, now, &content.body, secrets);
    headers.push(("idempotency-key", content.key.clone()));
    headers.push(("mintage-project", project.to_owned()));
    headers.push(("mintage-type", type_name.to_owned()));
    Some(Letter { method: Method::Post, url, headers, body: content.body.clone() })
}

async fn write_all(
    outbox: &Arc<Outbox>,
    receiver: &Arc<LiveReceiver>,
    directory: &str,
    deliveries: Vec<Delivery>,
) -> Vec<Done> {
    let (at, began) = (outbox.common.now(), Instant::now());
    let file = |delivery: &Delivery| NewFile {
        path: vec![delivery.content.subject.clone(), format!("{}.json", delivery.content.key)],
        content: delivery.content.body.clone(),
    };
    let order = WriteOrder {
        tenant: receiver.tenant().to_owned(),
        directory: directory.to_owned(),
        files: deliveries.iter().map(file).collect(),
        in_order: receiver.is_ordered(),
    };
    let settings = outbox.settings(receiver.stored().receiver.purpose);
    let carrier = Arc::clone(&outbox.carrier);
    let results = match within(settings.timeout, async move { carrier.write(order).await }).await {
        Ok(results) => results,
        Err(going_on) => {
            let tried: Vec<_> = deliveries.iter().map(|tried| (tried.id, tried.attempt)).collect();
            outbox.follow(going_on, move |results| {
                let written = tried.into_iter().zip(results).filter(|(_, result)| result.is_ok());
                written.map(|((id, number), _)| (id, success(number, at, began, None))).collect()
            });
            vec![Err(format!("not written within {:?}", settings.timeout)); deliveries.len()]
        }
    };
    // The same for all of them, and so one row on record.
    let duration = began.elapsed();
    let mut done = Vec::with_capacity(deliveries.len());
    let behind = deliveries.get(results.len()..).unwrap_or_default();
    let behind: Vec<_> = behind.iter().map(|late| untried(outbox, receiver, late)).collect();
    for (delivery, result) in deliveries.iter().zip(results) {
        let (status, put_off, worth_retrying) = (None, None, true);
        let verdict = Verdict { status, error: result.err(), put_off, worth_retrying };
        done.push(outbox.judge(receiver, delivery, verdict, (at, duration)).await);
    }
    done.extend(behind);
    done
}

/// What is claimed and will not be tried.
pub(super) fn untried(outbox: &Outbox, receiver: &Arc<LiveReceiver>, delivery: &Delivery) -> Done {
    let (number, at) = (delivery.attempt, outbox.common.now());
    let freight = Freight::one(&delivery.content.body);
    let attempt = Attempt { number, at, duration: Duration::ZERO, status: None, error: None };
    let (delivery, token, next) = (delivery.id, delivery.token, Next::Untried);
    let outcome = Outcome { delivery, token, attempt, next };
    Done { receiver: Arc::clone(receiver), worked: None, outcome, freight }
}

impl Outbox {
    /// Decides what follows an attempt that began and took so long, and says so.
    async fn judge(
        &self,
        receiver: &Arc<LiveReceiver>,
        delivery: &Delivery,
        verdict: Verdict,
        (at, duration): (Timestamp, Duration),
    ) -> Done {
        let Verdict { status, error, put_off, worth_retrying } = verdict;
        let gone = status == Some(GONE) && matches!(receiver.target, Target::Webhook(_));
        if gone {
            self.receivers.disable(receiver, "it answered 410 Gone").await;
        }
        let next = match &error {
            None => Next::Delivered,
            Some(_) if gone || !worth_retrying => Next::Dead,
            Some(_) => self.next_attempt(receiver, delivery.failures.saturating_add(1), put_off),
        };
        self.report(receiver, delivery, error.as_deref(), next);
        // A receiver that rejects what it is sent works as it should.
        let worked = if error.is_none() || !worth_retrying { Some(true) } else { Some(false) };
        let attempt = Attempt { number: delivery.attempt, at, duration, status, error };
        let outcome = Outcome { delivery: delivery.id, token: delivery.token, attempt, next };
        let freight = Freight::one(&delivery.content.body);
        Done { receiver: Arc::clone(receiver), worked, outcome, freight }
    }

    fn next_attempt(
        &self,
        receiver: &LiveReceiver,
        failures: u32,
        put_off: Option<Duration>,
    ) -> Next {
        let backoff = self.settings(receiver.stored().receiver.purpose).backoff;
        let Some(delay) = backoff.delay(failures, &*self.common.entropy) else {
            return Next::Dead;
        };
        let delay = delay.max(put_off.unwrap_or_default().min(PUT_OFF_MAX));
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        Next::Retry(self.common.now().checked_add(delay).unwrap_or(Timestamp::MAX))
    }

    fn report(
        &self,
        receiver: &LiveReceiver,
        delivery: &Delivery,
        error: Option<&str>,
        next: Next,
    ) {
        let (id, to, attempt) = (delivery.id.0, receiver.name(), delivery.attempt);
        let metrics = &self.common.metrics;
        let Some(problem) = error else {
            metrics.deliveries_made.inc();
            debug!(delivery = id, "delivery {id} has reached {to}");
            return;
        };
        metrics.deliveries_failed.inc();
        if next == Next::Dead {
            metrics.deliveries_dead.inc();
            error!(delivery = id, attempt, "delivery {id} to {to} failed for good: {problem}");
        } else {
            warn!(delivery = id, attempt, "delivery {id} to {to} failed: {problem}");
        }
    }
}
