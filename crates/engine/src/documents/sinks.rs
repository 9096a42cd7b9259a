//! Sinks: where documents are delivered.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use storage::{NewReceiver, Purpose, TenantLimits};

use crate::catalogue::{Catalogue, Put};
use crate::error::AdminError;
use crate::outbox::secrets::SealedSecrets;
use crate::outbox::{
    BucketPlace, Carrier, LiveReceiver, OpenBucket, Receivers, Target, label, signing,
};
use crate::sealing::MasterKey;
use crate::surroundings::Common;

/// Where documents go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Files in a directory below the one that the server's configuration names.
    Directory {
        /// Its name.
        path: String,
    },
    /// An address that is sent each document, signed like a webhook.
    Http {
        /// The address.
        url: String,
    },
    /// Objects in a bucket of an S3-compatible store.
    Bucket(BucketPlace),
}

/// A sink as it is stored, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSink {
    pub(crate) place: Place,
    /// The ID types whose documents it takes; none is those that no other sink of the tenant takes.
    pub(crate) types: Option<Vec<String>>,
    /// Whether the documents of a type have to arrive in order.
    pub(crate) ordered: bool,
    pub(crate) secrets: SealedSecrets,
    /// The secret of a bucket, sealed with the master key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bucket_secret: Option<String>,
}

impl StoredSink {
    /// The bucket with its secret, if it is one.
    pub(crate) fn open_bucket(
        &self,
        label: &str,
        master_key: &MasterKey,
    ) -> Result<Option<OpenBucket>, AdminError> {
        let (Place::Bucket(place), Some(sealed)) = (&self.place, &self.bucket_secret) else {
            return Ok(None);
        };
        let sealed = STANDARD.decode(sealed).unwrap_or_default();
        let wrong_key = |_| AdminError::MasterKey(label.to_owned());
        let secret = master_key.open_bytes(&sealed, label).map_err(wrong_key)?;
        let secret = String::from_utf8_lossy(&secret).into_owned();
        place.open(secret).map(Some).map_err(AdminError::Refused)
    }
}

/// What a sink is made from. It has a secret in it that must not be printed.
#[derive(Clone)]
pub struct SinkOrder {
    /// Whose it is.
    pub tenant: String,
    /// What people call it.
    pub name: String,
    /// Where documents go.
    pub place: Place,
    /// The secret of a bucket; none, or an empty one, keeps the one that is known.
    pub bucket_secret: Option<String>,
    /// The ID types whose documents it takes; none is those that no other sink of the tenant takes.
    pub types: Option<Vec<String>>,
    /// Whether the documents of a type have to arrive in order.
    pub ordered: bool,
}

/// A sink that was put.
pub struct PutSink {
    /// Whether it is new.
    pub put: Put,
    /// The sink.
    pub sink: Arc<LiveReceiver>,
    /// The secret of a new one that has an address. It is shown once.
    pub secret: Option<String>,
}

impl LiveReceiver {
    /// Where documents go, if this is a sink: the place, the types, and whether in order.
    pub fn sink(&self) -> Option<(&Place, Option<&[String]>, bool)> {
        match &self.target {
            Target::Sink(sink) => Some((&sink.place, sink.types.as_deref(), sink.ordered)),
            Target::Webhook(_) => None,
        }
    }

    /// Whether deliveries have to arrive in order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(&self.target, Target::Sink(sink) if sink.ordered)
    }

    /// Whether deliveries are made together: in order, or with one wait for the disk.
    pub(crate) fn takes_together(&self) -> bool {
        match &self.target {
            Target::Sink(sink) => sink.ordered || matches!(sink.place, Place::Directory { .. }),
            Target::Webhook(_) => false,
        }
    }
}

/// The sinks.
pub struct Sinks {
    pub(crate) common: Common,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) receivers: Arc<Receivers>,
    pub(crate) carrier: Arc<dyn Carrier>,
}

impl Sinks {
    /// Every sink that a tenant may see, by name; none is every tenant.
    pub fn list(&self, tenant: Option<&str>) -> Vec<Arc<LiveReceiver>> {
        self.receivers.list(Purpose::Sink, tenant)
    }

    /// One of a tenant.
    pub fn find(&self, tenant: &str, name: &str) -> Result<Arc<LiveReceiver>, AdminError> {
        self.receivers.find(Purpose::Sink, tenant, name)
    }

    /// The one that takes documents of a type: one that names the type, or else one that names none. Not
    /// the latter while a sink of the tenant is left out: it may be the one that names the type, and
    /// documents must not go to another place because of that.
    pub(crate) fn of_type(&self, tenant: &str, type_name: &str) -> Option<Arc<LiveReceiver>> {
        let incomplete = self.receivers.is_incomplete(tenant);
        let names = |live: &Arc<LiveReceiver>| match live.sink() {
            Some((_, Some(types), _)) => types.iter().any(|name| name == type_name).then_some(0),
            Some((_, None, _)) if !incomplete => Some(1),
            _ => None,
        };
        let sinks = self.list(Some(tenant)).into_iter();
        let candidates = sinks.filter_map(|live| Some((names(&live)?, live)));
        candidates.min_by_key(|(rank, _)| *rank).map(|(_, live)| live)
    }

    /// Makes a sink, or changes it and puts it to use again. Its secrets stay.
    pub(crate) async fn put(&self, order: SinkOrder) -> Result<PutSink, AdminError> {
        let SinkOrder { tenant, name, place, bucket_secret, types, ordered } = order;
        idgen::spec::valid_name("name", &name)?;
        match &place {
            Place::Directory { path } => self.carrier.check_directory(path).await,
            Place::Http { url } => self.carrier.check_address(url),
            Place::Bucket(bucket) => self
                .carrier
                .check_address(&bucket.endpoint)
                .and_then(|()| bucket.check())
                .and_then(|()| self.carrier.check_address(&bucket.longest_address())),
        }
        .map_err(AdminError::Refused)?;
        if self.catalogue.tenant(&tenant).is_none() {
            self.catalogue.put_tenant(&tenant, TenantLimits::default()).await?;
        }
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        self.refuse_second(&tenant, &name, types.as_deref())?;
        let known = self.find(&tenant, &name).ok();
        let (secrets, known_secret) = match known.as_ref().map(|known| &known.target) {
            Some(Target::Sink(sink)) => (sink.secrets.clone(), sink.bucket_secret.clone()),
            _ => (SealedSecrets::default(), None),
        };
        let label = label(Purpose::Sink, &tenant, &name);
        let seal = |secret: String| {
            let entropy = &*self.common.entropy;
            STANDARD.encode(self.master_key.seal_bytes(secret.as_bytes(), &label, entropy))
        };
        let bucket_secret = bucket_secret.filter(|secret| !secret.is_empty());
        let bucket_secret = bucket_secret.map(seal).or(known_secret);
        let is_bucket = matches!(place, Place::Bucket(_));
        if is_bucket && bucket_secret.is_none() {
            let reason = "a new bucket needs its secret_access_key".to_owned();
            return Err(AdminError::Refused(reason));
        }
        let bucket_secret = bucket_secret.filter(|_| is_bucket);
        let mut sink = StoredSink { place, types, ordered, secrets, bucket_secret };
        let is_new = sink.secrets == SealedSecrets::default();
        let secret = (is_new && matches!(sink.place, Place::Http { .. })).then(|| {
            let keep = SignedDuration::ZERO;
            let secret = sink.secrets.add(&label, keep, &self.master_key, &self.common);
            signing::shown(&secret)
        });
        let settings = serde_json::to_string(&sink).expect("settings are plain data");
        let store = &self.common.store;
        let (put, id) = if let Some(known) = known {
            store.change_receiver(known.id(), known.stored().revision, &settings).await?;
            (Put::Kept, known.id())
        } else {
            let receiver = NewReceiver { tenant, purpose: Purpose::Sink, name, settings };
            (Put::Created, store.create_receiver(&receiver, self.common.now()).await?.id)
        };
        Ok(PutSink { put, sink: self.receivers.read_back(id).await?, secret })
    }

    /// Two sinks for one type would be a matter of luck.
    fn refuse_second(
        &self,
        tenant: &str,
        name: &str,
        types: Option<&[String]>,
    ) -> Result<(), AdminError> {
        for other in self.list(Some(tenant)).iter().filter(|other| other.name() != name) {
            let (Some((_, theirs, _)), other) = (other.sink(), other.name()) else { continue };
            let shared = match (types, theirs) {
                (None, None) => Some("all types".to_owned()),
                (Some(ours), Some(theirs)) => {
                    ours.iter().find(|name| theirs.contains(name)).cloned()
                }
                _ => None,
            };
            if let Some(shared) = shared {
                let reason = format!("the sink {other} takes documents of {shared} already");
                return Err(AdminError::Refused(reason));
            }
        }
        Ok(())
    }

    /// Deletes a sink to which nothing has to be delivered any more.
    pub(crate) async fn remove(&self, tenant: &str, name: &str) -> Result<(), AdminError> {
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        let sink = self.find(tenant, name)?;
        for state in [storage::DeliveryState::Pending, storage::DeliveryState::Dead] {
            let filter = storage::DeliveryFilter {
                tenant: tenant.to_owned(),
                receiver: sink.id(),
                state: Some(state),
                before: None,
                limit: 1,
            };
            if !self.common.store.deliveries(&filter).await?.is_empty() {
                return Err(AdminError::InUse);
            }
        }
        self.common.store.remove_receiver(sink.id()).await?;
        self.receivers.reload().await
    }
}
