//! What the behaviours have in common.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use idgen::snowflake::SnowflakeSpec;
use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use storage::{
    Change, Draw, Gap, GapFilter, Issue, IssueGroup, Losses, Page, Span, Store, TypeId, pool_holder,
};

use crate::Fixture;

/// The instance that most tests draw as.
pub(crate) const ME: &str = "first run";

/// The instance that comes after a crash.
pub(crate) const SUCCESSOR: &str = "second run";

/// A lease that does not run out while a test runs.
pub(crate) const LEASE: Duration = Duration::from_secs(3600);

/// How long a pool of an epoch that ended is left alone.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// Bounds that are never reached.
pub(crate) const UNBOUNDED: (u64, u64) = (0, SERIAL_MAX);

/// A time: so many seconds after the tests' beginning.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_123 + seconds * 1000).unwrap()
}

pub(crate) fn sequence(tenant: &str, name: &str) -> IdType {
    IdType::new(tenant, name, Kind::Sequence(SequenceSpec::default())).unwrap()
}

pub(crate) fn snowflake(tenant: &str, name: &str) -> IdType {
    IdType::new(tenant, name, Kind::Snowflake(SnowflakeSpec::default())).unwrap()
}

pub(crate) async fn new_sequence(store: &dyn Store, name: &str) -> TypeId {
    store.create_type(&sequence("acme", name), &[], at(0)).await.unwrap().id
}

pub(crate) async fn new_snowflake(store: &dyn Store, name: &str) -> TypeId {
    store.create_type(&snowflake("acme", name), &[], at(0)).await.unwrap().id
}

/// An order for serials of a type that was never changed, from the counter without a period.
pub(crate) fn order(type_id: TypeId, count: u64) -> Draw<'static> {
    Draw { type_id, period: "", count, bounds: UNBOUNDED, holder: ME, revision: 0, now: at(1) }
}

/// Draws from the counter without a period.
pub(crate) async fn draw(store: &dyn Store, type_id: TypeId, count: u64) -> Range<u64> {
    store.draw(order(type_id, count)).await.unwrap()
}

/// Serials of the counter without a period.
pub(crate) fn span(type_id: TypeId, serials: Range<u64>) -> Span {
    Span { type_id, period: String::new(), serials }
}

pub(crate) fn issue(first: u64, last: u64) -> Issue {
    let number = i64::try_from(first % 1000).unwrap();
    Issue { first, last, key_id: number, at_ms: at(number).as_millisecond() }
}

/// A group that was handed out whole, in one request.
pub(crate) fn handed_out(type_id: TypeId, serials: Range<u64>) -> IssueGroup {
    let issues = vec![issue(serials.start, serials.end - 1)];
    IssueGroup { span: span(type_id, serials), issues }
}

/// A group in which a filter has rejected everything.
pub(crate) fn rejected(type_id: TypeId, serials: Range<u64>) -> IssueGroup {
    IssueGroup { span: span(type_id, serials), issues: vec![] }
}

/// Opens the store for the first time, for [`ME`].
pub(crate) async fn open(fixture: &dyn Fixture) -> Arc<dyn Store> {
    let store = fixture.open().await;
    store.join(ME, LEASE).await.unwrap();
    store
}

/// Opens the store again after a crash. Whoever had joined is gone.
pub(crate) async fn crash(fixture: &dyn Fixture, store: Arc<dyn Store>) -> Arc<dyn Store> {
    drop(store);
    fixture.open().await
}

/// Opens the store again after it was closed in an orderly way. Whoever had joined is gone.
pub(crate) async fn reopen(fixture: &dyn Fixture, store: Arc<dyn Store>) -> Arc<dyn Store> {
    store.close().await.unwrap();
    crash(fixture, store).await
}

/// Everything that was drawn and never accounted for, as the next instance finds it.
pub(crate) async fn lost(fixture: &dyn Fixture, store: Arc<dyn Store>) -> Vec<Span> {
    let store = crash(fixture, store).await;
    merged(&close_lost(&*store, SUCCESSOR, 100).await.gaps)
}

/// Starts as an instance and looks for what others have lost.
pub(crate) async fn close_lost(store: &dyn Store, instance: &str, seconds: i64) -> Losses {
    store.join(instance, LEASE).await.unwrap();
    store.close_lost_draws(instance, GRACE, at(seconds)).await.unwrap()
}

/// The pool of an epoch that begins, and serials that it has drawn.
pub(crate) async fn filled_pool(store: &dyn Store, id: TypeId, count: u64) -> String {
    let pool = pool_holder(store.pool_epoch("a server", at(0)).await.unwrap());
    store.draw(Draw { holder: &pool, ..order(id, count) }).await.unwrap();
    pool
}

/// What a holder holds, in order.
pub(crate) async fn held(store: &dyn Store, holder: &str) -> Vec<Span> {
    merge(store.open_draws(holder).await.unwrap())
}

/// The spans of gaps in order. Whether neighbours are one gap or several is up to the store.
pub(crate) fn merged(gaps: &[Gap]) -> Vec<Span> {
    merge(gaps.iter().map(|gap| gap.span.clone()).collect())
}

/// Spans in order, with neighbours joined.
pub(crate) fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| {
        let key = |span: &Span| (span.type_id, span.period.clone(), span.serials.start);
        key(a).cmp(&key(b))
    });
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last)
                if (last.type_id, &last.period, last.serials.end)
                    == (span.type_id, &span.period, span.serials.start) =>
            {
                last.serials.end = span.serials.end;
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// Which gaps are meant: all open ones of a type.
pub(crate) fn open_gaps(type_id: TypeId) -> GapFilter {
    let page = Page { after: 0, limit: 10_000 };
    GapFilter { type_id, reasons: vec![], from: None, to: None, with_closed: false, page }
}

/// All open gaps of a type.
pub(crate) async fn gaps(store: &dyn Store, type_id: TypeId) -> Vec<Gap> {
    store.list_gaps(&open_gaps(type_id)).await.unwrap()
}

/// All gaps of a type, open or closed.
pub(crate) async fn all_gaps(store: &dyn Store, type_id: TypeId) -> Vec<Gap> {
    store.list_gaps(&GapFilter { with_closed: true, ..open_gaps(type_id) }).await.unwrap()
}

/// Numbers that look random and are the same in every run (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// One of the places of a list that is not empty.
    pub(crate) fn place<T>(&mut self, list: &[T]) -> usize {
        usize::try_from(self.below(list.len() as u64)).unwrap()
    }
}

/// Changes a type as it is known now.
pub(crate) async fn change(
    store: &dyn Store,
    id: TypeId,
    id_type: &IdType,
    sealed_key: &[u8],
    only_if_unused: bool,
) -> storage::Result<Change> {
    let known = store.list_types().await?.into_iter().find(|stored| stored.id == id);
    let revision = known.map_or(0, |stored| stored.revision);
    store.change_type(id, revision, id_type, sealed_key, only_if_unused).await
}
