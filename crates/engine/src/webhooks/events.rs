//! From what happened to whom it is told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use storage::{Batch, BatchState, Event, NewDelivery};
use tokio::sync::{Notify, watch};
use tracing::warn;

use super::EventKind;
use crate::LiveType;
use crate::catalogue::Catalogue;
use crate::error::AdminError;
use crate::outbox::{LiveReceiver, Outbox};
use crate::surroundings::Common;

/// How often to look for events that instances which are gone have left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Events of a shard that are read at once.
const EVENTS_AT_ONCE: usize = 100;

/// Makes deliveries of events.
pub(crate) struct EventRouter {
    pub(crate) common: Common,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) outbox: Arc<Outbox>,
    /// Says that something has happened.
    pub(crate) news: Arc<Notify>,
}

impl EventRouter {
    /// Works until told to stop.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut failing = false;
        while !*stop.borrow() {
            match self.route_all().await {
                Ok(()) => failing = false,
                Err(problem) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!("cannot make deliveries of events: {problem}");
                    }
                }
            }
            tokio::select! {
                () = self.news.notified(), if !failing => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = stop.changed() => {}
            }
        }
    }

    async fn route_all(&self) -> Result<(), AdminError> {
        loop {
            let events = self.common.store.events(EVENTS_AT_ONCE).await?;
            if !events.is_empty() {
                // Behind the events, so that a webhook which another instance has made before one of
                // them happened is known.
                self.catalogue.refresh().await?;
                self.outbox.receivers.follow(self.catalogue.version()).await?;
            }
            let (mut routed, mut failure) = (0, None);
            for event in &events {
                match self.route(event).await {
                    Ok(done) => routed += usize::from(done),
                    // Others may be on a shard that works.
                    Err(problem) => failure = Some(problem),
                }
            }
            if routed > 0 {
                self.outbox.wake();
            }
            match failure {
                Some(problem) => return Err(problem),
                None if routed == 0 => return Ok(()),
                None => {}
            }
        }
    }

    /// False if another instance was faster, or if the type is too new to be known.
    async fn route(&self, event: &Event) -> Result<bool, AdminError> {
        // Unknown only if another instance has just made it.
        let Some(live) = self.catalogue.by_id(event.batch.type_id) else { return Ok(false) };
        let receivers = self.outbox.receivers.all();
        let deliveries: Vec<_> = match EventKind::of(event.state) {
            Some(kind) => {
                let told = receivers.iter().filter(|webhook| wants(webhook, kind, event, &live));
                told.map(|webhook| delivery(webhook, kind, event, &live)).collect()
            }
            None => Vec::new(),
        };
        Ok(self.common.store.route_event(event.id, &deliveries, self.common.now()).await?)
    }
}

/// Whether a webhook is to be told.
fn wants(webhook: &LiveReceiver, kind: EventKind, event: &Event, live: &LiveType) -> bool {
    let named = match event.batch.notify.as_deref().map(serde_json::from_str::<Vec<String>>) {
        Some(Ok(names)) => names.iter().any(|name| name == webhook.name()),
        Some(Err(_)) | None => true,
    };
    webhook.is_in_use()
        && webhook.tenant() == live.stored().id_type.tenant()
        && webhook.webhook().is_some_and(|settings| settings.events.contains(&kind))
        && named
}

fn delivery(
    webhook: &LiveReceiver,
    kind: EventKind,
    event: &Event,
    live: &LiveType,
) -> NewDelivery {
    let body = json!({
        "type": kind.name(),
        "timestamp": event.at,
        "data": batch_data(&event.batch, event.state, live),
    });
    NewDelivery {
        receiver: webhook.id(),
        key: format!("evt_{}", event.id.0),
        subject: kind.name().to_owned(),
        body: body.to_string(),
    }
}

fn batch_data(batch: &Batch, state: BatchState, live: &LiveType) -> Value {
    let id_type = &live.stored().id_type;
    let metadata = batch.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    json!({
        "id": batch.id.0.to_string(),
        "tenant": id_type.tenant(),
        "type": id_type.name(),
        "name": batch.name,
        "metadata": metadata.unwrap_or(Value::Null),
        "state": state,
        "made": batch.made,
        "total": batch.count(),
        "abandoned": batch.abandoned,
        "dead_letters": batch.dead_chunks,
        "error": batch.error,
        "created_at": batch.created_at,
        "finished_at": batch.finished_at,
    })
}
