//! The forms of a URL, each with the real thing behind it.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use storage::{
    BatchId, BoardTime, CodeKey, CodeStatus, Dispatch, HotCodes, Ledger as CodeLedger, PoolKey,
    SharedPools, ToppedUp, TypeId, WorkerName,
};
use storage_redis::{Settings, SettingsError, SharedRedis};
use support::redis::{Redis, free_port};
use support::{Ledger, World, closed, epoch, reading, serials, settings, until};

/// Fills a pool and takes something out of it.
async fn works(world: &World, pools: &SharedRedis) {
    closed(pools).await;
    world.fill(pools, 10).await;
    assert_eq!(world.withdraw(pools, 3).await.unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_password_and_a_database_number() {
    let (redis, world) = (Redis::start_with(&["--requirepass", "hunter2"]), World::new().await);
    let wrong = world.pools_with(settings(&format!("redis://:wrong@127.0.0.1:{}", redis.port)));
    until("it was tried", async || reading(&wrong, "redis_connect_failures") > 1.0).await;
    assert!(wrong.is_open());
    let error = world.withdraw(&wrong, 1).await.unwrap_err();
    assert!(!error.to_string().contains("wrong"), "{error}");
    let pools = world.pools_with(settings(&format!("redis://:hunter2@127.0.0.1:{}/5", redis.port)));
    works(&world, &pools).await;
    let keyspace: String = redis.run("INFO keyspace");
    assert!(keyspace.contains("db5:keys=1"), "{keyspace}");
}

#[tokio::test]
async fn a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock");
    let socket = socket.to_str().unwrap();
    let _redis = Redis::start_with(&["--unixsocket", socket]);
    let world = World::new().await;
    works(&world, &world.pools_with(settings(&format!("unix://{socket}")))).await;
}

#[tokio::test]
async fn tls_with_a_certificate_that_is_checked() {
    let certificates = tempfile::tempdir().unwrap();
    let path = |name: &str| certificates.path().join(name).to_str().unwrap().to_owned();
    make_certificates(certificates.path());
    let port = free_port().to_string();
    let redis = Redis::start_with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &path("server.pem"),
        "--tls-key-file",
        &path("server.key"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    let world = World::new().await;
    let url = format!("rediss://localhost:{port}");
    let trusting = |name: &str| Settings { ca_file: Some(path(name).into()), ..settings(&url) };
    let stranger = world.pools_with(trusting("other-ca.pem"));
    until("it was tried", async || reading(&stranger, "redis_connect_failures") > 1.0).await;
    assert!(stranger.is_open());
    works(&world, &world.pools_with(trusting("ca.pem"))).await;
    drop(redis);
}

/// A certificate for `localhost`, the authority that signed it, and another one that did not.
fn make_certificates(directory: &Path) {
    let authority = |file: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.join(file), certificate.pem()).unwrap();
        Issuer::new(params, key)
    };
    authority("other-ca.pem");
    let authority = authority("ca.pem");
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    std::fs::write(directory.join("server.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.join("server.key"), key.serialize_pem()).unwrap();
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_once() {
    let world = World::new().await;
    let store = || Arc::clone(&world.store) as Arc<dyn storage::Store>;
    let connect = |settings: Settings| {
        let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        SharedRedis::connect(settings, store(), clock, Arc::new(|| 0)).map(drop).unwrap_err()
    };
    let error = connect(Settings::new("http://:hunter2@host"));
    assert!(matches!(error, SettingsError::Scheme), "{error}");
    let url = "rediss://:hunter2@host";
    let missing = Settings { ca_file: Some("/does/not/exist.pem".into()), ..Settings::new(url) };
    assert!(!format!("{missing:?}").contains("hunter2"));
    let error = connect(missing);
    assert!(matches!(error, SettingsError::CaFile { .. }), "{error}");
    let namespace = "a{b}".to_owned();
    let error = connect(Settings { namespace, ..Settings::new("redis://host") });
    assert!(matches!(error, SettingsError::Namespace), "{error}");
    let lock_ttl = std::time::Duration::from_millis(60);
    let error = connect(Settings { lock_ttl, ..Settings::new("redis://host") });
    assert!(matches!(error, SettingsError::Times(_)), "{error}");
}

/// A sentinel process that watches a master alone.
struct Sentinel {
    port: u16,
    process: Child,
    _directory: tempfile::TempDir,
}

impl Sentinel {
    fn start(master: &Redis) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (file, port) = (directory.path().join("sentinel.conf"), free_port());
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\n\
             sentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 300\n\
             sentinel failover-timeout main 3000\n",
            directory.path().display(),
            master.port
        );
        std::fs::write(&file, settings).unwrap();
        let process = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { port, process, _directory: directory }
    }

    /// How many replicas it knows of.
    fn replicas(&self) -> usize {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let Ok(mut connection) = client.get_connection() else { return 0 };
        let mut command = redis::cmd("SENTINEL");
        let replicas = command.arg("REPLICAS").arg("main").query(&mut connection);
        replicas.map_or(0, |replicas: Vec<redis::Value>| replicas.len())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn sentinels_lead_to_the_new_master_in_a_new_epoch() {
    let (mut master, replica, world) = (Redis::start(), Redis::start(), World::new().await);
    replica.run::<()>(&format!("REPLICAOF 127.0.0.1 {}", master.port));
    let sentinel = Sentinel::start(&master);
    until("the sentinel knows the replica", async || sentinel.replicas() == 1).await;
    // The first of the two is not there; the other one knows.
    let url =
        format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/main", free_port(), sentinel.port);
    let pools = world.pools_with(settings(&url));
    closed(&pools).await;
    world.fill(&pools, 100).await;
    let mut ledger = Ledger::default();
    ledger.add(&world.withdraw(&pools, 60).await.unwrap());
    let before = epoch(&pools);
    master.kill();
    assert!(world.withdraw(&pools, 1).await.is_err());
    closed(&pools).await;
    assert_eq!(epoch(&pools), before + 1);
    assert_eq!(pools.prepare(&world.pool).await.unwrap(), 0);
    world.fill(&pools, 100).await;
    ledger.add(&world.withdraw(&pools, 100).await.unwrap());
    let info: String = replica.run("INFO replication");
    assert!(info.contains("role:master"), "{info}");
}

fn start_cluster() -> Vec<Redis> {
    let nodes: Vec<Redis> = (0..3)
        .map(|_| {
            let bus = free_port().to_string();
            let arguments =
                ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout"];
            Redis::start_with(&[&arguments[..], &["2000"]].concat())
        })
        .collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        node.run::<()>(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        let bus: Vec<String> = node.run("CONFIG GET cluster-port");
        nodes[0].run::<()>(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port, bus[1]));
    }
    nodes
}

async fn cluster_is_up(nodes: &[Redis]) {
    until("the cluster is up", async || {
        nodes.iter().all(|node| {
            let info: String = node.run("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    })
    .await;
}

#[tokio::test]
async fn a_cluster_has_each_pool_on_one_node() {
    let (mut nodes, world) = (start_cluster(), World::new().await);
    cluster_is_up(&nodes).await;
    let alone = world.pools_with(settings(&nodes[0].url()));
    until("it was tried", async || reading(&alone, "redis_connect_failures") > 0.0).await;
    assert!(alone.is_open(), "a node is not a server of its own");
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", free_port(), nodes[1].port);
    let pools = world.pools_with(settings(&url));
    closed(&pools).await;
    let mut keys = Vec::new();
    for number in 0..12 {
        keys.push(world.another(&format!("type{number}")).await);
    }
    let mut ledgers: Vec<Ledger> = keys.iter().map(|_| Ledger::default()).collect();
    fill_all(&world, &pools, &keys, &mut ledgers, 70).await;
    let spread: Vec<u64> = nodes.iter().map(|node| node.run("DBSIZE")).collect();
    assert!(spread.iter().filter(|&&keys| keys > 0).count() >= 2, "{spread:?}");
    let before = epoch(&pools);
    nodes[2].kill();
    until("it is noticed", async || pools.is_open()).await;
    nodes[2].launch();
    cluster_is_up(&nodes).await;
    closed(&pools).await;
    assert!(epoch(&pools) > before, "one server is another process now");
    fill_all(&world, &pools, &keys, &mut ledgers, 70).await;
    assert!(ledgers.iter().all(|ledger| ledger.len() == 140));
}

/// Keys of a script have to be on one node, and each note is on the node of its own.
#[tokio::test]
async fn a_cluster_has_turns_and_notes() {
    let (nodes, world) = (start_cluster(), World::new().await);
    cluster_is_up(&nodes).await;
    let redis = world.pools_with(settings(&format!("redis+cluster://127.0.0.1:{}", nodes[0].port)));
    closed(&redis).await;
    let worker = WorkerName { instance: "here".to_owned(), number: 0 };
    redis.offer_turns(&["a", "b"]).await.unwrap();
    assert_eq!(redis.take_turn(&worker).await.unwrap().as_deref(), Some("a"));
    redis.end_turn(&worker, "a", false).await.unwrap();
    let turn = redis.await_turn(&worker, Duration::from_secs(9)).await.unwrap();
    assert_eq!(turn.as_deref(), Some("b"));
    redis.end_turn(&worker, "b", false).await.unwrap();
    assert_eq!(redis.take_turn(&worker).await.unwrap(), None);
    for serial in 0..20 {
        let (type_id, batch, ledger) = (TypeId(1), BatchId(1), CodeLedger::Stored);
        let code = CodeKey { type_id, batch, ledger, serial };
        let status = CodeStatus { scans: serial + 1, first_scanned_at: None, void: None };
        let BoardTime(now) = redis.hot_code(&code).await.unwrap().at;
        assert!(redis.note_hot_code(&code, &status, BoardTime(now + 60_000)).await.unwrap());
        assert_eq!(redis.hot_code(&code).await.unwrap().noted.unwrap().0, status);
    }
    let spread: Vec<u64> = nodes.iter().map(|node| node.run("DBSIZE")).collect();
    assert!(spread.iter().filter(|&&keys| keys > 0).count() >= 2, "{spread:?}");
}

/// A slot that moves ends the epoch: the list is on another node now, and may be on both.
#[tokio::test]
async fn a_cluster_that_moves_slots_begins_a_new_epoch() {
    let (nodes, world) = (start_cluster(), World::new().await);
    cluster_is_up(&nodes).await;
    let pools = world.pools_with(settings(&format!("redis+cluster://127.0.0.1:{}", nodes[0].port)));
    closed(&pools).await;
    let before = epoch(&pools);
    let target: String = nodes[1].run("CLUSTER MYID");
    for node in &nodes {
        node.run::<()>(&format!("CLUSTER SETSLOT 0 NODE {target}"));
    }
    until("the new epoch", async || epoch(&pools) > before && !pools.is_open()).await;
}

async fn fill_all(
    world: &World,
    pools: &SharedRedis,
    keys: &[PoolKey],
    ledgers: &mut [Ledger],
    count: usize,
) {
    for (pool, ledger) in keys.iter().zip(ledgers) {
        let topped = pools.top_up(pool, world.order(100)).await.unwrap();
        assert!(matches!(topped, ToppedUp::Added { items: 100, .. }), "{topped:?}");
        ledger.add(&pools.withdraw(pool, count).await.map(serials).unwrap());
    }
}
