//! `kill -9`: what was acknowledged is on the disk.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use storage::{CounterStore, Draw, TypeId, TypeStore};
use storage_sqlite::SqliteStore;
use tokio::task::JoinSet;

/// Where the process that is to be killed works. Set only in that process.
const DIRECTORY: &str = "MINTAGE_TEST_KILL_DIRECTORY";
const MARK: &str = "drawn ";
const ROUNDS: usize = 10;

/// Not a test by itself: the process that [`acknowledged_draws_survive_kill_9`] starts and kills.
#[test]
#[expect(clippy::disallowed_methods, reason = "how else should it know that it is the other one")]
fn draw_until_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(Path::new(&directory)).unwrap());
        let type_id = store.list_types().await.unwrap()[0].id;
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            tasks.spawn(draw_for_ever(Arc::clone(&store), type_id));
        }
        tasks.join_all().await;
    });
}

async fn draw_for_ever(store: Arc<SqliteStore>, type_id: TypeId) {
    let (bounds, now) = ((0, SERIAL_MAX), Timestamp::UNIX_EPOCH);
    let order = Draw { type_id, period: "", count: 7, bounds, holder: "killed", revision: 0, now };
    loop {
        let drawn = store.draw(order).await.unwrap();
        let line = format!("{MARK}{} {}\n", drawn.start, drawn.end);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// Draws in another process, and kills it when it has acknowledged so many.
fn draw_and_kill(directory: &Path, acknowledged: usize) -> Vec<Range<u64>> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["draw_until_killed", "--exact", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut drawn = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((start, end)) = line.strip_prefix(MARK).and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        drawn.push(start.parse().unwrap()..end.parse().unwrap());
        if drawn.len() == acknowledged {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(drawn.len() >= acknowledged, "it ended by itself");
    drawn
}

async fn next(store: &SqliteStore, id: TypeId) -> u64 {
    store.counters(id).await.unwrap().first().map_or(0, |(_, next)| *next)
}

#[tokio::test]
async fn acknowledged_draws_survive_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let id_type = IdType::new("acme", "order", Kind::Sequence(SequenceSpec::default())).unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let id = store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await.unwrap().id;
    drop(store);
    let mut first_free = 0;
    for round in 0..ROUNDS {
        let mut drawn = draw_and_kill(directory.path(), 1 + 37 * round);
        drawn.sort_by_key(|range| range.start);
        assert!(drawn[0].start >= first_free, "a serial of an earlier run came again");
        assert!(drawn.is_sorted_by(|a, b| a.end <= b.start), "a serial came twice");

        // The lock went with the process.
        let store = SqliteStore::open(directory.path()).unwrap();
        let next = next(&store, id).await;
        assert!(next >= drawn[drawn.len() - 1].end);
        let lost = store
            .close_lost_draws("survivor", Duration::ZERO, Timestamp::UNIX_EPOCH)
            .await
            .unwrap();
        assert_eq!(lost.gone, ["killed"]);
        let lost_serials: u64 =
            lost.gaps.iter().map(|gap| gap.span.serials.clone().count() as u64).sum();
        assert_eq!(lost_serials, next - first_free, "every draw of the run was left open");
        first_free = next;
    }
}
