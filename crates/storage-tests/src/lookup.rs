//! Finding out who was given a serial.

use idgen::spec::SERIAL_MAX;
use storage::{Draw, Issue, IssueGroup, IssueRecord, Span, Store, TypeId};

use crate::Fixture;
use crate::support::{
    draw, handed_out, issue, new_sequence, new_snowflake, open, order, reopen, span,
};

/// The issues that a serial is found in, in any period.
async fn find(store: &dyn Store, id: TypeId, serial: u64) -> Vec<Issue> {
    let found = store.find_issues(id, None, serial).await.unwrap();
    found.into_iter().map(|record| record.issue).collect()
}

pub async fn serials_are_found_at_all_boundaries(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 40).await;
    // A filter has rejected 10, 11, 16 to 19, 22, and 25 to 29.
    let issues = vec![issue(12, 14), issue(15, 15), issue(20, 24)];
    let before = handed_out(id, 0..10);
    let group = IssueGroup { span: span(id, 10..30), issues: issues.clone() };
    store.record_issues(&[before.clone(), group]).await.unwrap();
    for serial in 0..50 {
        let expected: &[Issue] = match serial {
            0..=9 => &before.issues,
            12..=14 => &issues[..1],
            15 => &issues[1..2],
            20..=24 => &issues[2..],
            _ => &[],
        };
        assert_eq!(find(&*store, id, serial).await, expected, "{serial}");
    }
    for serial in [SERIAL_MAX - 1, SERIAL_MAX, SERIAL_MAX + 1, u64::MAX] {
        assert_eq!(find(&*store, id, serial).await, [], "{serial}");
    }
    assert_eq!(find(&*store, TypeId(id.0 + 1), 12).await, []);
}

pub async fn groups_of_every_width_are_told_apart(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let drawn = draw(&*store, id, 10_000).await;
    let mut next = drawn.start;
    let mut groups = Vec::new();
    // Wide and narrow by turns, so that neighbours differ.
    for width in (1..=40).flat_map(|n| [n, 70 - n]).chain([1, 1, 128, 1, 255, 256, 1, 1, 2, 2]) {
        groups.push(handed_out(id, next..next + width));
        next += width;
    }
    store.record_issues(&groups).await.unwrap();
    for group in &groups {
        let serials = &group.span.serials;
        for serial in [serials.start, u64::midpoint(serials.start, serials.end), serials.end - 1] {
            assert_eq!(find(&*store, id, serial).await, group.issues, "{serial}");
        }
    }
    assert_eq!(find(&*store, id, next).await, []);
}

pub async fn periods_are_told_apart(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let mut expected = Vec::new();
    for (period, first) in [("", 0), ("2025", 2), ("2026", 4)] {
        store.draw(Draw { period, ..order(id, 10) }).await.unwrap();
        let group = IssueGroup {
            span: Span { type_id: id, period: period.to_owned(), serials: 0..10 },
            issues: vec![issue(first, 6)],
        };
        expected.push(IssueRecord { period: period.to_owned(), issue: issue(first, 6) });
        store.record_issues(&[group]).await.unwrap();
    }
    for (period, serial, hits) in [
        (None, 1, &expected[..1]),
        (None, 3, &expected[..2]),
        (None, 6, &expected[..]),
        (None, 7, &[]),
        (Some(""), 6, &expected[..1]),
        (Some("2025"), 6, &expected[1..2]),
        (Some("2026"), 4, &expected[2..]),
        (Some("2026"), 3, &[]),
        (Some("2024"), 6, &[]),
        (Some("2027"), 6, &[]),
    ] {
        let mut found = store.find_issues(id, period, serial).await.unwrap();
        found.sort_by(|a, b| a.period.cmp(&b.period));
        assert_eq!(found, hits, "{period:?} {serial}");
    }
}

/// Snowflakes of three nodes, each with groups of many issues, which interleave.
pub async fn overlapping_groups_are_told_apart(fixture: &dyn Fixture) {
    const BASE: u64 = 1 << 60;
    const NODES: u64 = 3;
    let store = open(fixture).await;
    let id = new_snowflake(&*store, "event").await;
    let first = |node: u64, step: u64| BASE + step * 1000 + node * 100;
    let mut groups = Vec::new();
    for node in 0..NODES {
        // Every node cuts its groups elsewhere.
        for from in (0..60).step_by(usize::try_from(5 + 7 * node).unwrap()) {
            let steps = from..(from + 5 + 7 * node).min(60);
            let issues: Vec<_> =
                steps.map(|step| issue(first(node, step), first(node, step) + step % 3)).collect();
            let serials = issues[0].first..issues[issues.len() - 1].last + 1;
            groups.push(IssueGroup { span: span(id, serials), issues });
        }
    }
    store.record_issues(&groups).await.unwrap();
    for node in 0..NODES {
        for step in 0..60 {
            let (first, last) = (first(node, step), first(node, step) + step % 3);
            for serial in first..=last {
                assert_eq!(find(&*store, id, serial).await, [issue(first, last)]);
            }
            for serial in [first - 1, last + 1] {
                assert_eq!(find(&*store, id, serial).await, [], "{node} {step}");
            }
        }
    }
}

pub async fn a_narrow_group_within_a_wide_one_is_found(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_snowflake(&*store, "event").await;
    let wide = IssueGroup {
        span: span(id, 1_000..1_000_001),
        issues: vec![issue(1_000, 1_000), issue(900_000, 900_009), issue(1_000_000, 1_000_000)],
    };
    let mut groups = vec![wide.clone()];
    groups.extend((1..500).map(|n| handed_out(id, n * 1_700..n * 1_700 + 1 + n % 9)));
    store.record_issues(&groups).await.unwrap();
    for group in &groups {
        for issue in &group.issues {
            for serial in [issue.first, issue.last] {
                assert_eq!(find(&*store, id, serial).await, std::slice::from_ref(issue));
            }
        }
    }
    for serial in [999, 1_001, 899_999, 900_010, 999_999, 1_000_001] {
        assert_eq!(find(&*store, id, serial).await, [], "{serial}");
    }
}

pub async fn snowflakes_at_the_end_of_the_space_are_found(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_snowflake(&*store, "event").await;
    let everything = IssueGroup {
        span: span(id, 0..SERIAL_MAX),
        issues: vec![issue(0, 0), issue(SERIAL_MAX - 1, SERIAL_MAX - 1)],
    };
    let end = handed_out(id, SERIAL_MAX - 9..SERIAL_MAX - 4);
    store.record_issues(&[everything.clone(), end.clone()]).await.unwrap();
    assert_eq!(find(&*store, id, 0).await, everything.issues[..1]);
    assert_eq!(find(&*store, id, SERIAL_MAX - 1).await, everything.issues[1..]);
    assert_eq!(find(&*store, id, SERIAL_MAX - 5).await, end.issues);
    for serial in [1, SERIAL_MAX - 10, SERIAL_MAX - 4, SERIAL_MAX] {
        assert_eq!(find(&*store, id, serial).await, []);
    }
}

pub async fn all_fields_of_an_issue_come_back_after_reopening(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 1_000).await;
    let issues: Vec<_> = [(1, 0, 1_790_000_000_000), (9, i64::MAX, 0), (10, 7, -1), (500, 1, 1)]
        .map(|(first, key_id, at_ms)| Issue { first, last: first + first / 10, key_id, at_ms })
        .to_vec();
    let group = IssueGroup { span: span(id, 0..1_000), issues: issues.clone() };
    store.record_issues(&[group]).await.unwrap();
    let store = reopen(fixture, store).await;
    for issue in issues {
        assert_eq!(find(&*store, id, issue.last).await, [issue]);
    }
}
