//! How the parts of the engine come to work together.

use std::sync::Arc;
use std::time::Duration;

use storage::{Noticeboard, WorkerName};
use tokio::sync::{Notify, watch};

use crate::answers::Answers;
use crate::audit::Audit;
use crate::batches::{Batches, Worker};
use crate::catalogue::Catalogue;
use crate::codes::{Codes, Company};
use crate::documents::{Documents, Sinks};
use crate::duties::{self, Duty};
use crate::engine::{Engine, EngineParts, EngineSettings};
use crate::error::AdminError;
use crate::gaps::Gaps;
use crate::issuing::{
    Issuer, IssuingSettings, LogWriter, PoolMaker, SharedPoolSet, SnowflakeParts,
};
use crate::keys::Keys;
use crate::membership::Membership;
use crate::outbox::{Carrier, Outbox, OutboxSettings, Receivers, Relay};
use crate::sealing::MasterKey;
use crate::surroundings::{Common, Entropy};
use crate::webhooks::{EventRouter, Webhooks};

/// How often expired answers, and what came along with old scans, are swept out.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// How often an instance looks for changes that others have made. They have to reach it within a
/// second.
const FOLLOW_EVERY: Duration = Duration::from_millis(300);

/// How often numbers for documents are given back that nobody takes, and those of failed steps are
/// accounted for.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// How often reservations are looked for whose time has run out.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// How often deliveries that were made long ago are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// How often stock that nobody takes is looked for.
const IDLE_EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Accounts for what a crash left behind, loads the catalogue and starts the background work.
    pub async fn start(parts: EngineParts, settings: EngineSettings) -> Result<Self, AdminError> {
        let EngineParts { store, clock, entropy, master_key, instance, .. } = parts;
        let (shared_pools, board, carrier) = (parts.shared_pools, parts.board, parts.carrier);
        let master_key = Arc::new(master_key);
        let common = Common {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
            metrics: Arc::default(),
        };
        let metrics = Arc::clone(&common.metrics);
        let membership = Membership::join(
            Arc::clone(&store),
            Arc::clone(&clock),
            instance.clone(),
            settings.lease,
        )
        .await?;
        membership.close_losses_now().await?;
        let log = LogWriter::new(Arc::clone(&store), Arc::clone(&clock), instance.clone());
        let pools = pool_maker(&common, &shared_pools, &log, &membership, settings.issuing);
        let catalogue = Catalogue::load(&common, Arc::clone(&master_key), pools, Arc::clone(&log));
        let catalogue = Arc::new(catalogue.await?);
        let keys = Keys::load(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&entropy),
            settings.default_rate,
        )
        .await?;
        keys.set_tenant_rates(&catalogue.tenants());
        let answers = Arc::new(Answers::new(
            &common,
            instance.clone(),
            settings.keep_answers,
            settings.request_time_max,
        ));
        let news = Arc::new(Notify::new());
        let company = company(&shared_pools, board.as_ref());
        let codes = Codes::new(&common, company, settings.keep_contexts);
        let batches = Batches::new(
            &common,
            Arc::clone(&catalogue),
            settings.batches,
            Arc::clone(&codes),
            Arc::clone(&news),
            board,
        );
        let senders =
            senders(&common, &catalogue, master_key, carrier, settings.outbox, &instance, news);
        let Senders { outbox, webhooks, documents, router } = senders.await?;
        let audit = Audit::new(&common);
        let gaps = Gaps::new(&common, Arc::clone(&catalogue));
        let issuer = Arc::new(Issuer::new(
            &common,
            Arc::clone(&membership),
            Arc::clone(&catalogue),
            log,
            settings.issuing,
        ));
        let (stop, _) = watch::channel(false);
        let engine = Self {
            store,
            catalogue,
            issuer,
            batches,
            codes,
            webhooks,
            documents,
            gaps,
            outbox,
            audit,
            keys: Arc::new(keys),
            answers,
            metrics,
            membership,
            shared_pools,
            stop,
            tasks: std::sync::Mutex::default(),
        };
        engine.start_duties(settings.pool_check, settings.reconcile);
        engine.batches.release_lost(&instance).await?;
        engine.start_workers(settings.batches.workers, &entropy, &instance);
        engine.start_deliveries(router);
        Ok(engine)
    }

    /// Starts what goes on beside requests.
    fn start_duties(&self, pool_check: Duration, reconcile: Duration) {
        let issuer = Arc::clone(&self.issuer);
        let stopped = self.stop.subscribe();
        let mut tasks = vec![tokio::spawn(async move { issuer.write_log(stopped).await })];
        let mut every = |interval, duty| {
            tasks.push(tokio::spawn(duties::run(duty, interval, self.stop.subscribe())));
        };
        every(PURGE_EVERY, Duty::PurgeAnswers(Arc::clone(&self.answers)));
        every(PURGE_EVERY, Duty::ForgetContexts(Arc::clone(&self.codes)));
        every(TIDY_EVERY, Duty::TidyNumbers(Arc::clone(&self.documents)));
        every(EXPIRE_EVERY, Duty::ExpireReservations(Arc::clone(&self.documents)));
        let (gaps, issuer) = (Arc::clone(&self.gaps), Arc::clone(&self.issuer));
        every(reconcile, Duty::Reconcile { gaps, issuer });
        every(FORGET_EVERY, Duty::ForgetDeliveries(Arc::clone(&self.outbox)));
        every(
            self.membership.renewal_interval(),
            Duty::KeepLease {
                membership: Arc::clone(&self.membership),
                issuer: Arc::clone(&self.issuer),
            },
        );
        if self.shared_pools.in_company() {
            every(
                self.membership.renewal_interval(),
                Duty::ReleaseChunks {
                    batches: Arc::clone(&self.batches),
                    instance: self.membership.instance().to_owned(),
                },
            );
            every(
                FOLLOW_EVERY,
                Duty::FollowCatalogue {
                    catalogue: Arc::clone(&self.catalogue),
                    keys: Arc::clone(&self.keys),
                    outbox: Arc::clone(&self.outbox),
                },
            );
            every(IDLE_EVERY, Duty::ReturnIdleStock(Arc::clone(&self.issuer)));
            every(pool_check, Duty::CheckLevels(Arc::clone(&self.issuer)));
        }
        self.tasks.lock().expect("nobody panics with the tasks").extend(tasks);
    }

    /// Starts what makes codes.
    fn start_workers(&self, count: usize, entropy: &Arc<dyn Entropy>, instance: &str) {
        let workers = (0..).take(count).map(|number| {
            let batches = Arc::clone(&self.batches);
            let name = WorkerName { instance: instance.to_owned(), number };
            let worker = Worker::new(batches, Arc::clone(entropy), name);
            tokio::spawn(worker.run(self.stop.subscribe()))
        });
        self.tasks.lock().expect("nobody panics with the tasks").extend(workers);
    }

    /// Starts what tells others what happened.
    fn start_deliveries(&self, router: EventRouter) {
        let relay = Relay::new(Arc::clone(&self.outbox));
        let tasks = [
            tokio::spawn(router.run(self.stop.subscribe())),
            tokio::spawn(relay.run(self.stop.subscribe())),
        ];
        self.tasks.lock().expect("nobody panics with the tasks").extend(tasks);
    }
}

fn company(shared: &SharedPoolSet, board: Option<&Arc<dyn Noticeboard>>) -> Company {
    match board {
        Some(board) => Company::Telling(Arc::clone(board)),
        None if shared.in_company() => Company::Silent,
        None => Company::None,
    }
}

fn pool_maker(
    common: &Common,
    shared: &SharedPoolSet,
    log: &Arc<LogWriter>,
    membership: &Arc<Membership>,
    settings: IssuingSettings,
) -> PoolMaker {
    let Common { store, clock, .. } = common.clone();
    let (log, membership) = (Arc::downgrade(log), Arc::clone(membership));
    let snowflakes = SnowflakeParts { store, clock, log, membership };
    let IssuingSettings { pool_sizes: sizes, watermark, .. } = settings;
    PoolMaker { shared: shared.clone(), snowflakes, sizes, watermark }
}

/// What delivers to others, and what has something to deliver.
struct Senders {
    outbox: Arc<Outbox>,
    webhooks: Webhooks,
    documents: Arc<Documents>,
    router: EventRouter,
}

async fn senders(
    common: &Common,
    catalogue: &Arc<Catalogue>,
    master_key: Arc<MasterKey>,
    carrier: Arc<dyn Carrier>,
    settings: OutboxSettings,
    instance: &str,
    news: Arc<Notify>,
) -> Result<Senders, AdminError> {
    let common = || common.clone();
    let catalogue = || Arc::clone(catalogue);
    let receivers = Receivers::load(&common(), Arc::clone(&master_key)).await?;
    let outbox = Outbox::new(common(), Arc::clone(&carrier), Arc::clone(&receivers), settings);
    let router =
        EventRouter { common: common(), catalogue: catalogue(), outbox: Arc::clone(&outbox), news };
    let sinks = Sinks {
        common: common(),
        master_key: Arc::clone(&master_key),
        catalogue: catalogue(),
        receivers: Arc::clone(&receivers),
        carrier: Arc::clone(&carrier),
    };
    let webhooks = Webhooks {
        common: common(),
        master_key,
        catalogue: catalogue(),
        receivers,
        carrier,
        timeout: settings.webhooks.timeout,
    };
    let documents =
        Documents::new(common(), catalogue(), Arc::clone(&outbox), sinks, instance.to_owned());
    Ok(Senders { outbox, webhooks, documents: Arc::new(documents), router })
}
