//! IDs that were drawn ahead of demand, and the account of those that were handed out.

use std::collections::VecDeque;
use std::ops::Range;

use idgen::random::RandomFormat;
use storage::{Issue, IssueGroup, Span, TypeId};

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

/// The IDs of one draw.
#[derive(Debug)]
pub(crate) struct Block {
    /// Serials of the draw that nobody has accounted for yet.
    unaccounted: Range<u64>,
    ids: BlockIds,
    taken: usize,
}

#[derive(Debug)]
enum BlockIds {
    /// Every serial has an ID. It is written when it is handed out, because a template may show
    /// the date.
    Plain { first: u64, count: usize },
    /// The serials that no filter rejected, and their IDs.
    Rendered { serials: Vec<u64>, ids: IdList },
}

impl Block {
    /// Serials of a sequence type.
    pub(crate) fn plain(drawn: Range<u64>) -> Self {
        let count = usize::try_from(drawn.end - drawn.start).unwrap_or(usize::MAX);
        Self { ids: BlockIds::Plain { first: drawn.start, count }, unaccounted: drawn, taken: 0 }
    }

    /// Serials of a random type, rendered.
    pub(crate) fn rendered(drawn: Range<u64>, format: &RandomFormat) -> Self {
        let (mut serials, mut ids) = (Vec::new(), IdList::default());
        format.for_each(drawn.clone(), |serial, text| {
            serials.push(serial);
            ids.push(std::str::from_utf8(text).expect("IDs are ASCII"));
        });
        Self { unaccounted: drawn, ids: BlockIds::Rendered { serials, ids }, taken: 0 }
    }

    /// IDs that are left.
    pub(crate) fn len(&self) -> usize {
        let all = match &self.ids {
            BlockIds::Plain { count, .. } => *count,
            BlockIds::Rendered { serials, .. } => serials.len(),
        };
        all - self.taken
    }

    fn serials_left(&self) -> u64 {
        let next = match &self.ids {
            BlockIds::Plain { first, .. } => first + self.taken as u64,
            BlockIds::Rendered { serials, .. } => {
                serials.get(self.taken).copied().unwrap_or(self.unaccounted.end)
            }
        };
        self.unaccounted.end.saturating_sub(next)
    }

    /// Moves the next IDs over and returns the first and the last serial.
    fn take_into(&mut self, count: usize, taken: &mut Taken) -> (u64, u64) {
        let range = self.taken..self.taken + count;
        self.taken = range.end;
        match &self.ids {
            BlockIds::Plain { first, .. } => {
                let serials = first + range.start as u64..first + range.end as u64;
                let ends = (serials.start, serials.end - 1);
                taken.serials.push(serials);
                ends
            }
            BlockIds::Rendered { serials, ids } => {
                taken.ids.push_all(ids, range.clone());
                (serials[range.start], serials[range.end - 1])
            }
        }
    }
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
            let (first, last) = block.take_into(share, &mut taken);
            push_issue(&mut self.issues, first, last, taker);
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

    /// Empties the stock and returns what was never handed out, the latest draw first, so that
    /// each can be given back to the counter in turn. The log must have been drained.
    pub(crate) fn drain_rest(&mut self) -> Vec<Span> {
        self.len = 0;
        let blocks = std::mem::take(&mut self.blocks);
        blocks
            .into_iter()
            .rev()
            .map(|block| span(self.type_id, &self.period, block.unaccounted))
            .filter(|span| !span.serials.is_empty())
            .collect()
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

/// Adds to the last issue where it is the same taker at the same moment.
pub(crate) fn push_issue(issues: &mut Vec<Issue>, first: u64, last: u64, taker: Taker) {
    match issues.last_mut() {
        Some(issue) if issue.key_id == taker.key_id && issue.at_ms == taker.at_ms => {
            issue.last = last;
        }
        _ => issues.push(Issue { first, last, key_id: taker.key_id, at_ms: taker.at_ms }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: TypeId = TypeId(3);

    fn taker(at_ms: i64) -> Taker {
        Taker { key_id: 1, at_ms }
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
        let rest: Vec<_> = stock.drain_rest().into_iter().map(|span| span.serials).collect();
        assert_eq!(rest.first(), Some(&(22..30)));
        assert_eq!(rest.len(), 1);
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
        let rest: Vec<_> = stock.drain_rest().into_iter().map(|span| span.serials).collect();
        assert_eq!(rest, [4..8, 1..4]);
        assert_eq!(stock.len(), 0);
    }

    #[test]
    fn a_draw_that_filters_rejected_whole_is_accounted_for() {
        let mut stock = Stock::new(TYPE, String::new());
        let ids = BlockIds::Rendered { serials: vec![], ids: IdList::default() };
        stock.add(Block { unaccounted: 0..50, ids, taken: 0 });
        let group = stock.drain_log().remove(0);
        assert_eq!((group.span.serials, group.issues), (0..50, vec![]));
    }
}
