//! What goes on beside requests, again and again until the engine stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use crate::answers::Answers;
use crate::batches::Batches;
use crate::catalogue::Catalogue;
use crate::codes::Codes;
use crate::documents::Documents;
use crate::error::AdminError;
use crate::gaps::Gaps;
use crate::issuing::Issuer;
use crate::keys::Keys;
use crate::membership::Membership;
use crate::outbox::Outbox;

/// One thing to do again and again.
pub(crate) enum Duty {
    /// Forget answers that have expired.
    PurgeAnswers(Arc<Answers>),
    /// Forget what came along with scans long ago.
    ForgetContexts(Arc<Codes>),
    /// Forget deliveries that were made long ago.
    ForgetDeliveries(Arc<Outbox>),
    /// Give back numbers for documents that nobody takes, and account for those of steps that failed.
    TidyNumbers(Arc<Documents>),
    /// End reservations whose time has run out.
    ExpireReservations(Arc<Documents>),
    /// Find serials that nothing explains, and those that are on record in a shared pool and not in it.
    Reconcile { gaps: Arc<Gaps>, issuer: Arc<Issuer> },
    /// Stay a member, and account for members that are gone.
    KeepLease { membership: Arc<Membership>, issuer: Arc<Issuer> },
    /// Take back the chunks of members that are gone.
    ReleaseChunks { batches: Arc<Batches>, instance: String },
    /// Take over what other instances have changed.
    FollowCatalogue { catalogue: Arc<Catalogue>, keys: Arc<Keys>, outbox: Arc<Outbox> },
    /// Let others have what nobody takes here.
    ReturnIdleStock(Arc<Issuer>),
    /// See to it that no shared pool stays low because a refill went wrong.
    CheckLevels(Arc<Issuer>),
}

/// Does a duty at an interval until told to stop. Its failures are said once each time they begin.
pub(crate) async fn run(duty: Duty, interval: Duration, mut stop: watch::Receiver<bool>) {
    let mut failing = false;
    while !*stop.borrow() {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = stop.changed() => return,
        }
        match duty.once().await {
            Ok(()) => failing = false,
            Err(problem) => {
                if !std::mem::replace(&mut failing, true) {
                    warn!("cannot {}: {problem}", duty.name());
                }
            }
        }
    }
}

impl Duty {
    fn name(&self) -> &'static str {
        match self {
            Self::PurgeAnswers(_) => "remove expired answers",
            Self::ForgetContexts(_) => "remove what came along with old scans",
            Self::ForgetDeliveries(_) => "remove old deliveries",
            Self::TidyNumbers(_) => "account for numbers of documents",
            Self::ExpireReservations(_) => "end reservations",
            Self::Reconcile { .. } => "look for serials that nothing explains",
            Self::KeepLease { .. } => "renew the lease of this instance",
            Self::ReleaseChunks { .. } => "take back chunks of batches",
            Self::FollowCatalogue { .. } => "follow changes of types, keys and webhooks",
            Self::ReturnIdleStock(_) => "return what nobody takes",
            Self::CheckLevels(_) => "check the levels of shared pools",
        }
    }

    async fn once(&self) -> Result<(), AdminError> {
        match self {
            Self::PurgeAnswers(answers) => answers.purge().await?,
            Self::ForgetContexts(codes) => codes.forget_contexts().await?,
            Self::TidyNumbers(documents) => documents.tidy_numbers().await?,
            Self::ExpireReservations(documents) => documents.expire_reservations().await?,
            Self::Reconcile { gaps, issuer } => {
                issuer.suspect_losses();
                gaps.reconcile().await?;
            }
            Self::ForgetDeliveries(outbox) => outbox.forget_old().await?,
            Self::KeepLease { membership, issuer } => {
                membership.renew().await?;
                if !membership.close_losses().await?.gone.is_empty() {
                    issuer.suspect_losses();
                }
                // Not here: pools can be many, and the lease does not wait for them.
                let issuer = Arc::clone(issuer);
                tokio::spawn(async move { issuer.find_lost_withdrawals().await });
            }
            Self::ReleaseChunks { batches, instance } => batches.release_lost(instance).await?,
            Self::FollowCatalogue { catalogue, keys, outbox } => {
                catalogue.refresh().await?;
                if keys.follow(catalogue.version()).await? {
                    keys.set_tenant_rates(&catalogue.tenants());
                }
                outbox.receivers.follow(catalogue.version()).await?;
            }
            Self::ReturnIdleStock(issuer) => issuer.return_idle_stock().await,
            Self::CheckLevels(issuer) => issuer.check_levels().await,
        }
        Ok(())
    }
}
