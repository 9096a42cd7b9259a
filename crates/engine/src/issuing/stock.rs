//! IDs that were drawn ahead of demand, and the account of those that were handed out.

use std::collections::VecDeque;
use std::ops::Range;

use idgen::random::RandomFormat;
use storage::{Issue, IssueGroup, Items, Span, TypeId};

use super::supply;

/// IDs as text, without an allocation for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdList {
    text: String,
    ends: Vec<usize>,
}

impl IdList {
    pub(crate) fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(self.text.len());
    }

    fn push_all(&mut self, other: &Self, range: Range<usize>) {
        for i in range {
            self.push(other.get(i));
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of them.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// What a request is given: serials that are yet to be written, or IDs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) serials: Vec<Range<u64>>,
    pub(crate) ids: IdList,
}

/// IDs that came together: those of one draw, or of one withdrawal from a shared pool.
#[derive(Debug)]
pub(crate) struct Block {
    /// Serials that nobody has accounted for yet.
    unaccounted: Range<u64>,
    ids: BlockIds,
    taken: usize,
    origin: Origin,
}

/// Who the store takes to hold the serials of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This instance, which has drawn them.
    Own,
    /// A pool that instances share, or this instance once the store was told.
    Pool { told: bool },
    /// Nobody: the shared pool is its own account.
    Table,
}

#[derive(Debug)]
enum BlockIds {
    /// Every serial has an ID. It is written when it is handed out, because a template may show
    /// the date.
    Plain { first: u64, count: usize },
    /// Some serials, and their IDs. Those in between were rejected by a filter, or are with
    /// another instance.
    Rendered { serials: Vec<u64>, ids: IdList },
    /// IDs that others put into an adopted table, in a form that is not ours. They have no serial
    /// to account for; the table itself remembers them.
    Foreign(IdList),
}

/// What was never handed out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Serials that this instance has drawn.
    Drawn(Span),
    /// What came out of a shared pool.
    Withdrawn(Items),
}

impl Block {
    /// Serials of a sequence type.
    pub(crate) fn plain(drawn: Range<u64>) -> Self {
        let count = usize::try_from(drawn.end - drawn.start).unwrap_or(usize::MAX);
        let ids = BlockIds::Plain { first: drawn.start, count };
        Self { ids, unaccounted: drawn, taken: 0, origin: Origin::Own }
    }

    /// Serials of a random type, rendered.
    pub(crate) fn rendered(drawn: Range<u64>, format: &RandomFormat) -> Self {
        let (mut serials, mut ids) = (Vec::new(), IdList::default());
        format.for_each(drawn.clone(), |serial, text| {
            serials.push(serial);
            ids.push(std::str::from_utf8(text).expect("IDs are ASCII"));
        });
        let ids = BlockIds::Rendered { serials, ids };
        Self { unaccounted: drawn, ids, taken: 0, origin: Origin::Own }
    }

    /// Serials from a shared pool: a block for each run of neighbours, because what lies between
    /// two runs is with others.
    pub(crate) fn runs(mut serials: Vec<u64>) -> Vec<Self> {
        serials.sort_unstable();
        serials
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| Self {
                origin: Origin::Pool { told: false },
                ..Self::plain(run[0]..run[run.len() - 1] + 1)
            })
            .collect()
    }

    /// IDs from a shared pool, with the serial of each.
    pub(crate) fn listed(mut found: Vec<(u64, String)>) -> Self {
        found.sort_unstable();
        let unaccounted = match (found.first(), found.last()) {
            (Some((first, _)), Some((last, _))) => *first..last + 1,
            _ => 0..0,
        };
        let (mut serials, mut ids) = (Vec::with_capacity(found.len()), IdList::default());
        for (serial, id) in found {
            serials.push(serial);
            ids.push(&id);
        }
        let ids = BlockIds::Rendered { serials, ids };
        Self { unaccounted, ids, taken: 0, origin: Origin::Table }
    }

    /// IDs from a shared pool that have no serial.
    pub(crate) fn foreign(found: &[String]) -> Self {
        let mut ids = IdList::default();
        for id in found {
            ids.push(id);
        }
        Self { unaccounted: 0..0, ids: BlockIds::Foreign(ids), taken: 0, origin: Origin::Table }
    }

    /// IDs that are left.
    pub(crate) fn len(&self) -> usize {
        let all = match &self.ids {
            BlockIds::Plain { count, .. } => *count,
            BlockIds::Rendered { ids, .. } | BlockIds::Foreign(ids) => ids.len(),
        };
        all - self.taken
    }

    fn serials_left(&self) -> u64 {
        let next = match &self.ids {
            BlockIds::Plain { first, .. } => first + self.taken as u64,
            BlockIds::Rendered { serials, .. } => {
                serials.get(self.taken).copied().unwrap_or(self.unaccounted.end)
            }
            BlockIds::Foreign(_) => self.unaccounted.end,
        };
        self.unaccounted.end.saturating_sub(next)
    }

    /// Moves the next IDs over and notes who has them.
    fn take_into(&mut self, count: usize, taken: &mut Taken, issues: &mut Vec<Issue>, by: Taker) {
        let range = self.taken..self.taken + count;
        self.taken = range.end;
        match &self.ids {
            BlockIds::Plain { first, .. } => {
                let serials = first + range.start as u64..first + range.end as u64;
                push_issue(issues, serials.start, serials.end - 1, by);
                taken.serials.push(serials);
            }
            BlockIds::Rendered { serials, ids } => {
                taken.ids.push_all(ids, range.clone());
                let serials = &serials[range];
                if self.origin == Origin::Own {
                    push_issue(issues, serials[0], serials[serials.len() - 1], by);
                } else {
                    for run in serials.chunk_by(|a, b| a + 1 == *b) {
                        push_neighbours(issues, run[0], run[run.len() - 1], by);
                    }
                }
            }
            BlockIds::Foreign(ids) => taken.ids.push_all(ids, range),
        }
    }

    /// What is left of it.
    fn into_rest(self, type_id: TypeId, period: &str) -> Rest {
        match (self.origin, self.ids) {
            (Origin::Own, _) => Rest::Drawn(span(type_id, period, self.unaccounted)),
            (_, BlockIds::Plain { first, count }) => {
                let left = first + self.taken as u64..first + count as u64;
                Rest::Withdrawn(Items::Serials(left.collect()))
            }
            (_, BlockIds::Rendered { ids, .. }) => withdrawn(&ids, self.taken, supply::stored),
            (_, BlockIds::Foreign(ids)) => withdrawn(&ids, self.taken, str::to_owned),
        }
    }
}

fn withdrawn(ids: &IdList, taken: usize, stored: fn(&str) -> String) -> Rest {
    Rest::Withdrawn(Items::Ids(ids.iter().skip(taken).map(stored).collect()))
}

/// Who takes, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taker {
    pub(crate) key_id: i64,
    pub(crate) at_ms: i64,
}

/// Blocks in order of their serials, and the part of the issue log that is not yet written.
#[derive(Debug)]
pub(crate) struct Stock {
    type_id: TypeId,
    period: String,
    blocks: VecDeque<Block>,
    len: usize,
    /// Issues from the first block.
    issues: Vec<Issue>,
    /// Groups of blocks that are used up.
    finished: Vec<IssueGroup>,
}

impl Stock {
    pub(crate) fn new(type_id: TypeId, period: String) -> Self {
        Self {
            type_id,
            period,
            blocks: VecDeque::new(),
            len: 0,
            issues: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// IDs that are ready.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Serials from the first ID that is ready to the end of the last draw.
    pub(crate) fn serials_left(&self) -> u64 {
        self.blocks.iter().map(Block::serials_left).sum()
    }

    pub(crate) fn add(&mut self, block: Block) {
        self.len += block.len();
        self.blocks.push_back(block);
        self.close_used_up_blocks();
    }

    /// Takes so many IDs, which must be there.
    pub(crate) fn take(&mut self, count: usize, taker: Taker) -> Taken {
        let mut taken = Taken::default();
        let mut wanted = count;
        while wanted > 0 {
            let block = self.blocks.front_mut().expect("the caller looked at the length");
            let share = wanted.min(block.len());
            block.take_into(share, &mut taken, &mut self.issues, taker);
            wanted -= share;
            self.close_used_up_blocks();
        }
        self.len -= count;
        taken
    }

    /// What has been handed out since the last call.
    pub(crate) fn drain_log(&mut self) -> Vec<IssueGroup> {
        let mut groups = std::mem::take(&mut self.finished);
        if let (Some(last), Some(block)) = (self.issues.last(), self.blocks.front_mut()) {
            let serials = block.unaccounted.start..last.last + 1;
            block.unaccounted.start = serials.end;
            let issues = std::mem::take(&mut self.issues);
            groups.push(IssueGroup { span: span(self.type_id, &self.period, serials), issues });
        }
        groups
    }

    /// Serials that came out of a shared pool, are still here, and were not reported before. The
    /// store has to learn who holds them.
    pub(crate) fn newly_held(&mut self) -> Vec<Span> {
        let (type_id, period) = (self.type_id, &self.period);
        let untold = Origin::Pool { told: false };
        let new = self.blocks.iter_mut().filter(|block| block.origin == untold);
        new.map(|block| {
            block.origin = Origin::Pool { told: true };
            span(type_id, period, block.unaccounted.clone())
        })
        .collect()
    }

    /// Empties the stock and returns what was never handed out, the latest first, so that each can
    /// be given back to the counter in turn. The log must have been drained.
    pub(crate) fn drain_rest(&mut self) -> Vec<Rest> {
        self.len = 0;
        let blocks = std::mem::take(&mut self.blocks);
        let left = blocks.into_iter().rev();
        let left = left.filter(|block| block.len() > 0 || !block.unaccounted.is_empty());
        left.map(|block| block.into_rest(self.type_id, &self.period)).collect()
    }

    /// A block without IDs is only waiting to be accounted for.
    fn close_used_up_blocks(&mut self) {
        while self.blocks.front().is_some_and(|block| block.len() == 0) {
            let block = self.blocks.pop_front().expect("it is in front");
            let issues = std::mem::take(&mut self.issues);
            let span = span(self.type_id, &self.period, block.unaccounted);
            self.finished.push(IssueGroup { span, issues });
        }
    }
}

fn span(type_id: TypeId, period: &str, serials: Range<u64>) -> Span {
    Span { type_id, period: period.to_owned(), serials }
}

/// Adds to the last issue where it is the same taker at the same moment, and nothing in between is
/// with anybody else.
pub(crate) fn push_neighbours(issues: &mut Vec<Issue>, first: u64, last: u64, taker: Taker) {
    match issues.last() {
        Some(issue) if issue.last + 1 != first => issues.push(issue_of(first, last, taker)),
        _ => push_issue(issues, first, last, taker),
    }
}

fn issue_of(first: u64, last: u64, taker: Taker) -> Issue {
    Issue { first, last, key_id: taker.key_id, at_ms: taker.at_ms }
}

/// Adds to the last issue where it is the same taker at the same moment.
fn push_issue(issues: &mut Vec<Issue>, first: u64, last: u64, taker: Taker) {
    match issues.last_mut() {
        Some(issue) if issue.key_id == taker.key_id && issue.at_ms == taker.at_ms => {
            issue.last = last;
        }
        _ => issues.push(issue_of(first, last, taker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: TypeId = TypeId(3);

    fn taker(at_ms: i64) -> Taker {
        Taker { key_id: 1, at_ms }
    }

    fn drawn(serials: Range<u64>) -> Rest {
        Rest::Drawn(span(TYPE, "", serials))
    }

    fn stock(draws: &[Range<u64>]) -> Stock {
        let mut stock = Stock::new(TYPE, String::new());
        for draw in draws {
            stock.add(Block::plain(draw.clone()));
        }
        stock
    }

    #[test]
    fn takes_cross_blocks_and_are_accounted_for_by_block() {
        let mut stock = stock(&[10..13, 20..30]);
        assert_eq!(stock.take(5, taker(0)).serials, [10..13, 20..22]);
        let groups = stock.drain_log();
        let spans: Vec<_> = groups.iter().map(|group| group.span.serials.clone()).collect();
        assert_eq!(spans, [10..13, 20..22]);
        assert!(stock.drain_log().is_empty());
        assert_eq!(stock.len(), 8);
        assert_eq!(stock.drain_rest(), [drawn(22..30)]);
    }

    #[test]
    fn issues_of_one_moment_are_one_entry() {
        let mut stock = stock(&[0..50, 50..100]);
        for at_ms in [5, 5, 5, 6] {
            stock.take(2, taker(at_ms));
        }
        let group = stock.drain_log().remove(0);
        let ends: Vec<_> = group.issues.iter().map(|issue| (issue.first, issue.last)).collect();
        assert_eq!(ends, [(0, 5), (6, 7)]);
    }

    #[test]
    fn the_rest_comes_back_latest_draw_first() {
        let mut stock = stock(&[0..4, 4..8]);
        stock.take(1, taker(0));
        stock.drain_log();
        assert_eq!(stock.drain_rest(), [drawn(4..8), drawn(1..4)]);
        assert_eq!(stock.len(), 0);
    }

    #[test]
    fn a_draw_that_filters_rejected_whole_is_accounted_for() {
        let mut stock = Stock::new(TYPE, String::new());
        let ids = BlockIds::Rendered { serials: vec![], ids: IdList::default() };
        stock.add(Block { unaccounted: 0..50, ids, taken: 0, origin: Origin::Own });
        let group = stock.drain_log().remove(0);
        assert_eq!((group.span.serials, group.issues), (0..50, vec![]));
    }

    #[test]
    fn serials_of_others_are_never_accounted_for() {
        let mut stock = Stock::new(TYPE, String::new());
        for run in Block::runs(vec![7, 3, 4, 5, 9]) {
            stock.add(run);
        }
        let held: Vec<_> = stock.newly_held().into_iter().map(|span| span.serials).collect();
        assert_eq!(held, [3..6, 7..8, 9..10]);
        assert!(stock.newly_held().is_empty(), "each is reported once");
        assert_eq!(stock.take(4, taker(0)).serials, [3..6, 7..8]);
        let spans: Vec<_> = stock.drain_log().into_iter().map(|group| group.span.serials).collect();
        assert_eq!(spans, [3..6, 7..8]);
    }

    #[test]
    fn listed_ids_are_logged_one_run_at_a_time() {
        let mut stock = Stock::new(TYPE, String::new());
        let listed = [(8, "h"), (2, "b"), (3, "c")].map(|(serial, id)| (serial, id.to_owned()));
        stock.add(Block::listed(listed.to_vec()));
        let taken = stock.take(2, taker(0));
        assert_eq!(taken.ids.iter().collect::<Vec<_>>(), ["b", "c"]);
        stock.take(1, taker(0));
        let issues = stock.drain_log().remove(0).issues;
        let ends: Vec<_> = issues.iter().map(|issue| (issue.first, issue.last)).collect();
        assert_eq!(ends, [(2, 3), (8, 8)]);
    }

    #[test]
    fn what_is_left_of_a_shared_pool_can_be_put_back() {
        let mut stock = Stock::new(TYPE, String::new());
        stock.add(Block::runs(vec![5, 6, 7]).remove(0));
        stock.take(1, taker(0));
        stock.drain_log();
        assert_eq!(stock.drain_rest(), [Rest::Withdrawn(Items::Serials(vec![6, 7]))]);
    }
}
