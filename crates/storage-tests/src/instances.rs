//! Who is alive, and snowflake nodes.
//!
//! A lease of no length has run out at once, so no test has to wait for one.

use std::sync::Arc;
use std::time::Duration;

use storage::{Draw, GapReason, Losses};

use crate::Fixture;
use crate::support::{
    GRACE, LEASE, ME, SUCCESSOR, at, close_lost, crash, draw, held, merged, new_sequence, open,
    order, span,
};

pub async fn joining_twice_gives_the_same_node(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let node = store.join(ME, LEASE).await.unwrap();
    assert_eq!(node, 0, "the lowest is free");
    assert_eq!(store.join(ME, LEASE).await.unwrap(), node);
    assert!(store.renew(ME, LEASE).await.unwrap());
    assert_eq!(store.join(ME, LEASE).await.unwrap(), node);
}

pub async fn only_who_has_joined_renews(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    assert!(!store.renew(SUCCESSOR, LEASE).await.unwrap());
    assert!(store.renew(ME, LEASE).await.unwrap());
    store.leave(ME).await.unwrap();
    assert!(!store.renew(ME, LEASE).await.unwrap());
    store.leave(ME).await.unwrap();
    store.leave("nobody").await.unwrap();
    store.join(ME, LEASE).await.unwrap();
    assert!(store.renew(ME, LEASE).await.unwrap());
}

pub async fn who_has_left_is_not_reported_as_gone(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.leave(ME).await.unwrap();
    assert_eq!(close_lost(&*store, SUCCESSOR, 1).await, Losses::default());
}

/// An instance that was held up for long may still be in time.
pub async fn a_lease_that_is_renewed_late_counts_if_nobody_noticed(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let node = store.join(ME, Duration::ZERO).await.unwrap();
    assert!(store.renew(ME, LEASE).await.unwrap());
    assert_eq!(close_lost(&*store, SUCCESSOR, 1).await, Losses::default());
    assert_eq!(store.join(ME, LEASE).await.unwrap(), node);
}

/// After a crash a new instance starts with a node that no living one holds.
pub async fn a_successor_takes_the_node_of_the_one_that_is_gone(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let store = crash(fixture, store).await;
    store.join(SUCCESSOR, LEASE).await.unwrap();
    close_lost(&*store, SUCCESSOR, 1).await;
    assert!(!store.renew(ME, LEASE).await.unwrap());
    store.leave(SUCCESSOR).await.unwrap();
    assert_eq!(store.join("third run", LEASE).await.unwrap(), 0);
}

/// Promised by stores with many instances only: the one instance of the others always has node 0.
pub async fn living_instances_hold_different_nodes(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let names = ["a", "b", "c", "d"];
    for (expected, name) in (0..).zip(names) {
        let node = store.join(name, LEASE).await.unwrap();
        assert_eq!(node, if fixture.many_instances() { expected } else { 0 });
    }
    if !fixture.many_instances() {
        return;
    }
    store.leave("c").await.unwrap();
    store.leave("b").await.unwrap();
    assert_eq!(store.join("e", LEASE).await.unwrap(), 1, "the lowest that is free");
    assert_eq!(store.join("a", LEASE).await.unwrap(), 0);
    assert_eq!(store.join("f", LEASE).await.unwrap(), 2);
    assert_eq!(store.join("g", LEASE).await.unwrap(), 4);
}

pub async fn many_that_join_at_once_get_different_nodes(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.join(&format!("run {number}"), LEASE).await.unwrap() })
        })
        .collect();
    let mut nodes = Vec::new();
    for task in tasks {
        nodes.push(task.await.unwrap());
    }
    nodes.sort_unstable();
    let expected = if fixture.many_instances() { (0..16).collect() } else { vec![0; 16] };
    assert_eq!(nodes, expected);
}

/// A lease that has run out is noticed once, by one instance. Where there is one instance at a
/// time, no lease runs out.
pub async fn a_lease_that_ran_out_is_reported_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let node = store.join("short", Duration::ZERO).await.unwrap();
    if !fixture.many_instances() {
        assert!(store.renew("short", Duration::ZERO).await.unwrap());
        return;
    }
    draw(&*store, id, 5).await;
    store.draw(Draw { holder: "short", ..order(id, 5) }).await.unwrap();
    let Losses { gone, gaps } = close_lost(&*store, ME, 1).await;
    assert_eq!(gone, ["short"]);
    assert_eq!(merged(&gaps), [span(id, 5..10)]);
    assert!(gaps.iter().all(|gap| gap.reason == GapReason::Crash && gap.instance == "short"));
    assert_eq!(held(&*store, ME).await, [span(id, 0..5)]);
    for instance in [ME, SUCCESSOR] {
        assert_eq!(close_lost(&*store, instance, 2).await, Losses::default());
    }
    assert!(!store.renew("short", LEASE).await.unwrap(), "it has to join again");
    assert_eq!(store.join("third", LEASE).await.unwrap(), node + 1, "{SUCCESSOR} has its node");
    store.leave(SUCCESSOR).await.unwrap();
    assert_eq!(store.join("short", LEASE).await.unwrap(), node);
    assert!(store.renew("short", LEASE).await.unwrap());
}

/// Whoever notices that its own lease has run out is not its own finder.
pub async fn an_instance_never_reports_itself(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 5).await;
    store.renew(ME, Duration::ZERO).await.unwrap();
    let losses = store.close_lost_draws(ME, GRACE, at(1)).await.unwrap();
    assert_eq!(losses, Losses::default());
    assert_eq!(held(&*store, ME).await, [span(id, 0..5)]);
}
