//! Through `PgBouncer`, which gives every transaction another session.

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use storage::Store;
use storage_postgres::{OpenError, PostgresSettings, PostgresStore};
use storage_tests::Fixture;
use support::{Databases, Servers};
use tempfile::TempDir;

/// A pooler in transaction mode in front of the first server, until it is dropped.
struct Pooler {
    process: Child,
    port: u16,
    _directory: TempDir,
}

fn program() -> PathBuf {
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
        .expect("the Debian package pgbouncer is installed")
}

impl Pooler {
    fn start() -> Self {
        // postgres://user:password@host:port/database
        let url = Servers::shared().postgres.strip_prefix("postgres://").unwrap();
        let (user, place) = url.split_once('@').unwrap();
        let (user, password) = user.split_once(':').unwrap();
        let server_port = place.split_once('/').unwrap().0.rsplit_once(':').unwrap().1;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("pgbouncer.ini");
        fs::write(
            &settings,
            format!(
                "[databases]\n\
                 * = host=127.0.0.1 port={server_port} user={user} password={password}\n\
                 [pgbouncer]\n\
                 listen_addr = 127.0.0.1\n\
                 listen_port = {port}\n\
                 unix_socket_dir =\n\
                 auth_type = any\n\
                 pool_mode = transaction\n\
                 default_pool_size = 4\n\
                 max_client_conn = 500\n"
            ),
        )
        .unwrap();
        fs::set_permissions(&settings, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(program());
        // It refuses to run as root, so it becomes whoever runs the servers.
        let owner = fs::metadata(Servers::shared().directory().join("run")).unwrap();
        if std::os::unix::fs::MetadataExt::uid(&fs::metadata(&settings).unwrap()) == 0 {
            let uid = std::os::unix::fs::MetadataExt::uid(&owner);
            chown(&settings, Some(uid), None).unwrap();
            std::os::unix::process::CommandExt::uid(&mut command, uid);
        }
        let process =
            command.arg(&settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(10), "PgBouncer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { process, port, _directory: directory }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A database behind the pooler.
struct Pooled {
    databases: Databases,
    pooler: Pooler,
}

impl Pooled {
    fn settings(&self, prepared_statements: bool) -> PostgresSettings {
        let (_, name) = self.databases.urls[0].rsplit_once('/').unwrap();
        let url = format!("postgres://mintage:any@127.0.0.1:{}/{name}", self.pooler.port);
        PostgresSettings { prepared_statements, ..PostgresSettings::new(url) }
    }
}

#[async_trait]
impl Fixture for Pooled {
    async fn create() -> Self {
        Self { databases: Databases::create(1).await, pooler: Pooler::start() }
    }

    async fn open(&self) -> Arc<dyn Store> {
        let store = PostgresStore::open(self.settings(false)).await.unwrap();
        let sql = "UPDATE instances SET expires_at = '-infinity'";
        self.databases.connect().await.batch_execute(sql).await.unwrap();
        store
    }

    async fn lose_draws(&self) {
        self.databases.connect().await.batch_execute("DELETE FROM draws").await.unwrap();
    }

    fn many_instances(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_are_refused_with_the_setting_to_change() {
    let pooled = Pooled::create().await;
    for _ in 0..5 {
        let error = PostgresStore::open(pooled.settings(true)).await.err().expect("it is refused");
        assert!(matches!(error, OpenError::Pooler { .. }), "{error}");
        assert!(error.to_string().contains("set prepared_statements to false"), "{error}");
    }
}

macro_rules! behaviours {
    ($($subject:ident::$behaviour:ident)*) => {
        $(
            #[test]
            fn $behaviour() {
                storage_tests::run(async {
                    storage_tests::$subject::$behaviour(&Pooled::create().await).await;
                });
            }
        )*
    };
}

// Some of each kind: many at once, arrays, transactions, all sorts of values.
behaviours! {
    answers::a_kept_answer_comes_back_after_reopening
    answers::two_claims_at_once_give_one_new
    audit::deeds_are_filtered
    cancelling::what_was_not_made_becomes_a_gap
    chunks::claims_at_once_never_give_the_same_chunk
    codes::codes_on_both_sides_of_a_border_are_there
    codes::scans_at_once_add_up
    counters::draws_are_disjoint_and_consecutive_under_concurrency
    deciding::decisions_change_what_they_can
    delivering::claims_at_once_are_disjoint
    delivery_lists::deliveries_are_listed_by_state
    document_gaps::a_document_that_arrives_after_all_closes_its_gap
    document_numbers::a_number_that_was_not_lost_after_all_closes_its_gap
    document_numbers::numbers_that_are_taken_at_once_have_no_gaps
    documents::many_documents_are_assigned_in_one_step
    documents::the_same_document_at_once_has_one_number
    events::a_batch_tells_of_its_last_chunk
    history::every_serial_is_accounted_for_in_any_history
    instances::many_that_join_at_once_get_different_nodes
    keys::a_key_comes_back_as_it_was_stored
    lookup::overlapping_groups_are_told_apart
    lost_claims::a_worker_that_asks_again_gets_the_same_chunk
    ordering::claims_at_once_keep_the_order
    receivers::a_receiver_comes_back_as_it_was_stored
    reconciling::steps_at_once_look_at_each_serial_once
    reservations::who_comes_first_decides
    setting_out::documents_set_out_and_arrive_together
    setting_out::what_becomes_of_one_is_no_concern_of_those_beside_it
    settling::many_deliveries_are_settled_in_one_step
    tenants::a_tenant_with_types_stays
    types::a_type_comes_back_as_it_was_stored
}
