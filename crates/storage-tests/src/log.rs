//! Recording what became of drawn serials.

use storage::{Issue, IssueGroup, StoreError};

use crate::Fixture;
use crate::support::{
    draw, gaps, handed_out, issue, lost, new_sequence, new_snowflake, open, order, rejected, span,
};

pub async fn recording_takes_serials_off_the_front_of_a_draw(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 0..3)]).await.unwrap();
    store.record_issues(&[handed_out(id, 3..4), handed_out(id, 10..12)]).await.unwrap();
    assert_eq!(gaps(&*store, id).await, []);
    assert_eq!(lost(fixture, store).await, [span(id, 4..10), span(id, 12..20)]);
}

pub async fn recording_everything_settles_a_draw(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    for _ in 0..3 {
        draw(&*store, id, 10).await;
    }
    store.record_issues(&[handed_out(id, 10..20)]).await.unwrap();
    store.record_issues(&[handed_out(id, 0..5), handed_out(id, 5..10)]).await.unwrap();
    assert_eq!(lost(fixture, store).await, [span(id, 20..30)]);
}

pub async fn rejected_serials_alone_are_accounted_for(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    store.record_issues(&[rejected(id, 0..4)]).await.unwrap();
    for serial in 0..10 {
        assert_eq!(store.find_issues(id, None, serial).await.unwrap(), []);
    }
    assert_eq!(lost(fixture, store).await, [span(id, 4..10)]);
}

/// A log that is written out of order must not make the serials before it look accounted for.
pub async fn recording_in_the_middle_leaves_both_sides_open(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 4..6)]).await.unwrap();
    store.record_issues(&[handed_out(id, 9..10)]).await.unwrap();
    assert_eq!(lost(fixture, store).await, [span(id, 0..4), span(id, 6..9)]);
}

/// After a failure whose outcome is not clear the same group is written again.
pub async fn recording_twice_changes_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (id, event) = (new_sequence(&*store, "order").await, new_snowflake(&*store, "event").await);
    draw(&*store, id, 10).await;
    let groups = [handed_out(id, 0..4), rejected(id, 4..5), handed_out(event, 1000..1004)];
    for _ in 0..3 {
        store.record_issues(&groups).await.unwrap();
    }
    // The second attempt may come together with what was issued in the meantime.
    let grown = [issue(5, 5), issue(6, 6), issue(7, 7)];
    for issues in [&grown[..1], &grown[..2], &grown[..], &grown[..1]] {
        let serials = 5..issues[issues.len() - 1].last + 1;
        let group = IssueGroup { span: span(id, serials), issues: issues.to_vec() };
        store.record_issues(&[group]).await.unwrap();
    }
    for (type_id, serial) in [(id, 2), (event, 1001), (id, 5), (id, 6), (id, 7)] {
        let found = store.find_issues(type_id, None, serial).await.unwrap();
        assert_eq!(found.len(), 1, "{serial}: {found:?}");
    }
    assert_eq!(lost(fixture, store).await, [span(id, 8..10)]);
}

pub async fn groups_of_several_types_are_recorded_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let event = new_snowflake(&*store, "event").await;
    draw(&*store, a, 5).await;
    draw(&*store, b, 5).await;
    let groups = [handed_out(a, 0..5), handed_out(event, 77..80), handed_out(b, 0..2)];
    store.record_issues(&groups).await.unwrap();
    for (type_id, serial, hits) in [(a, 4, 1), (b, 1, 1), (b, 2, 0), (event, 79, 1), (event, 1, 0)]
    {
        assert_eq!(store.find_issues(type_id, None, serial).await.unwrap().len(), hits);
    }
    assert_eq!(lost(fixture, store).await, [span(b, 2..5)]);
}

pub async fn the_log_of_a_retired_type_goes_on(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 5).await;
    store.remove_type(id).await.unwrap();
    store.record_issues(&[handed_out(id, 0..5)]).await.unwrap();
    let found = store.find_issues(id, None, 3).await.unwrap();
    let expected = Issue { first: 0, last: 4, ..issue(0, 4) };
    assert_eq!(found.iter().map(|r| &r.issue).collect::<Vec<_>>(), [&expected]);
    let refused = store.draw(order(id, 1)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(lost(fixture, store).await, []);
}

pub async fn recording_nothing_is_fine(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 5).await;
    store.record_issues(&[]).await.unwrap();
    assert_eq!(lost(fixture, store).await, [span(id, 0..5)]);
}
