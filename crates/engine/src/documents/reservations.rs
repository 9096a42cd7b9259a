//! Numbers that are held for somebody who has no document yet.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use storage::{
    Confirmed, NewDocument, Reservation, ReservationId, ReservationOrder, ReservationState,
    StoreError,
};
use tracing::info;

use super::counter::Counter;
use super::taken::Taken;
use super::{DocumentError, Documents};
use crate::LiveType;
use crate::error::IssueError;

/// Reservations that one step ends on each shard.
const EXPIRE_AT_ONCE: usize = 1000;

/// A number that is to be held.
#[derive(Debug, Clone)]
pub struct HoldOrder {
    /// Whose.
    pub tenant: String,
    /// Of which type.
    pub type_name: String,
    /// Who asks: the number of the API key, or 0.
    pub key_id: i64,
    /// For how long.
    pub hold: Duration,
}

impl Documents {
    /// Holds a number. This goes on to its end even if whoever asks goes away: a number that was taken
    /// on the way would be with this instance, and nobody would know.
    pub async fn reserve(
        self: &Arc<Self>,
        order: HoldOrder,
    ) -> Result<(Reservation, Arc<LiveType>), DocumentError> {
        let documents = Arc::clone(self);
        let reserving = tokio::spawn(async move { documents.reserve_to_end(&order).await });
        let interrupted = |_| IssueError::Unavailable("the step was interrupted".to_owned());
        reserving.await.map_err(interrupted)?
    }

    async fn reserve_to_end(
        &self,
        order: &HoldOrder,
    ) -> Result<(Reservation, Arc<LiveType>), DocumentError> {
        match self.try_reserve(order).await {
            // The type was changed, here or by another instance; or this one was taken for gone.
            Err(DocumentError::Issue(IssueError::Closed)) => {
                self.catalogue.refresh().await.map_err(IssueError::from)?;
                self.try_reserve(order).await
            }
            result => result,
        }
    }

    async fn try_reserve(
        &self,
        order: &HoldOrder,
    ) -> Result<(Reservation, Arc<LiveType>), DocumentError> {
        let live = self.catalogue.find(&order.tenant, &order.type_name)?;
        let now = self.common.now();
        let counter = Counter::now(&live, now)?;
        if counter.gapless {
            return Err(DocumentError::Gapless);
        }
        let step = self.groups.step();
        let ids = step.numbers.take(&live, &counter, 1).await?;
        let Some(id) = ids.first() else { return Err(IssueError::Exhausted { left: 0 }.into()) };
        let (numbers, room) = (&step.numbers, None);
        let taken = Taken { numbers, live: &live, counter: &counter, ids: &ids, room };
        let hold = SignedDuration::try_from(order.hold).unwrap_or(SignedDuration::MAX);
        let order = ReservationOrder {
            type_id: live.stored().id,
            revision: live.stored().revision,
            period: counter.period().to_owned(),
            holder: step.numbers.instance().to_owned(),
            id: id.clone(),
            key_id: order.key_id,
            expires_at: now.checked_add(hold).unwrap_or(Timestamp::MAX),
            now,
        };
        let result = self.common.store.reserve(&order).await;
        taken.ended();
        match result {
            Ok(reservation) => Ok((reservation, live)),
            Err(problem) => Err(step.failed(&live, &counter, &ids, problem).await.into()),
        }
    }

    /// A reservation with its type, as far as one tenant may see it; none is every tenant.
    pub async fn reservation(
        &self,
        id: ReservationId,
        tenant: Option<&str>,
    ) -> Result<(Reservation, Arc<LiveType>), DocumentError> {
        let missing = || DocumentError::NotFound("reservation");
        let found = self.common.store.reservation(id).await?.ok_or_else(missing)?;
        let live = self.catalogue.by_id(found.key.type_id).ok_or_else(missing)?;
        let visible = tenant.is_none_or(|own| own == live.stored().id_type.tenant());
        if visible { Ok((found, live)) } else { Err(missing()) }
    }

    /// Gives a document the number that is held for it, and returns the number as text.
    pub async fn confirm(
        &self,
        id: ReservationId,
        tenant: Option<&str>,
        document: &NewDocument,
    ) -> Result<String, DocumentError> {
        let (_, live) = self.reservation(id, tenant).await?;
        let id_type = &live.stored().id_type;
        let sink = self.sinks.of_type(id_type.tenant(), id_type.name());
        let sink = sink.ok_or(DocumentError::NoSink)?;
        let (store, now) = (&self.common.store, self.common.now());
        let in_order = sink.is_ordered();
        match store.confirm_reservation(id, document, sink.id(), in_order, now).await {
            Ok(Confirmed::Done(delivery)) => {
                self.outbox.wake();
                Ok(delivery.content.key)
            }
            Ok(Confirmed::Conflict { id }) => Err(DocumentError::Conflict { place: 0, id }),
            Ok(Confirmed::NotHeld(state)) => Err(DocumentError::NotHeld(state.name())),
            Err(StoreError::NotFound(_)) => Err(DocumentError::NotFound("reservation")),
            Err(problem) => Err(problem.into()),
        }
    }

    /// Gives a number up that is held. What was given up before stays as it is.
    pub async fn release(
        &self,
        id: ReservationId,
        tenant: Option<&str>,
    ) -> Result<(Reservation, Arc<LiveType>), DocumentError> {
        let (_, live) = self.reservation(id, tenant).await?;
        let released = self.common.store.release_reservation(id, self.common.now()).await?;
        let released = released.ok_or(DocumentError::NotFound("reservation"))?;
        match released.state {
            ReservationState::Confirmed => Err(DocumentError::NotHeld(released.state.name())),
            _ => Ok((released, live)),
        }
    }

    /// Makes gaps of numbers whose time has run out.
    pub(crate) async fn expire_reservations(&self) -> Result<(), StoreError> {
        loop {
            let now = self.common.now();
            let ended = self.common.store.expire_reservations(now, EXPIRE_AT_ONCE).await?.len();
            if ended == 0 {
                return Ok(());
            }
            info!(ended, "{ended} reservations were not confirmed in time");
        }
    }
}
