//! Any history of draws, records, returns and crashes leaves every serial accounted for.
//!
//! Histories are made of dice, and a model that knows the fate of every serial runs beside the
//! store. In the end the store is asked about each one.

use std::ops::Range;
use std::sync::Arc;

use storage::{Draw, GapReason, GivenBack, Issue, IssueGroup, Span, Store, TypeId};

use crate::Fixture;
use crate::support::{Dice, at, crash, merge, merged, new_sequence, reopen};

const HISTORIES: u64 = 6;
const STEPS: u64 = 120;

/// What became of a serial.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    /// It is with an instance.
    Open,
    Issued(Issue),
    Rejected,
    Gap(GapReason),
}

/// A counter in the model.
struct Counter {
    type_id: TypeId,
    period: &'static str,
    bounds: (u64, u64),
    /// The fate of each serial from the lower bound on. The counter stands behind the last.
    fates: Vec<Fate>,
    /// What is left of each draw.
    draws: Vec<Range<u64>>,
}

impl Counter {
    fn next(&self) -> u64 {
        self.bounds.0 + self.fates.len() as u64
    }

    fn span(&self, serials: Range<u64>) -> Span {
        Span { type_id: self.type_id, period: self.period.to_owned(), serials }
    }

    fn set(&mut self, serials: Range<u64>, fate: &Fate) {
        for serial in serials {
            self.fates[usize::try_from(serial - self.bounds.0).unwrap()] = fate.clone();
        }
    }
}

/// A store, the model of it, and the dice.
struct World<'a> {
    fixture: &'a dyn Fixture,
    store: Arc<dyn Store>,
    counters: Vec<Counter>,
    dice: Dice,
    instance: String,
    step: u64,
}

impl World<'_> {
    fn now(&self) -> jiff::Timestamp {
        at(self.step.cast_signed())
    }

    async fn draw(&mut self) {
        let place = self.dice.place(&self.counters);
        let count = 1 + self.dice.below(20);
        let now = self.now();
        let counter = &mut self.counters[place];
        let expected = counter.next()..(counter.next() + count).min(counter.bounds.1);
        let draw = Draw {
            type_id: counter.type_id,
            period: counter.period,
            count,
            bounds: counter.bounds,
            instance: &self.instance,
            now,
        };
        let drawn = self.store.draw(draw).await.unwrap();
        assert_eq!(drawn.is_empty(), expected.is_empty());
        if !expected.is_empty() {
            assert_eq!(drawn, expected);
            counter.fates.extend(drawn.clone().map(|_| Fate::Open));
            counter.draws.push(drawn);
        }
    }

    /// A counter with an open draw, and one of its draws.
    fn pick(&mut self) -> Option<(usize, usize)> {
        let open: Vec<_> =
            (0..self.counters.len()).filter(|&c| !self.counters[c].draws.is_empty()).collect();
        if open.is_empty() {
            return None;
        }
        let place = open[self.dice.place(&open)];
        Some((place, self.dice.place(&self.counters[place].draws)))
    }

    /// Hands out or rejects serials from the front of a draw.
    fn use_up(&mut self) -> Option<IssueGroup> {
        let (place, number) = self.pick()?;
        let left = self.counters[place].draws[number].clone();
        let taken = left.start..left.start + 1 + self.dice.below(left.end - left.start);
        let mut issues = Vec::new();
        let mut next = taken.start;
        while next < taken.end {
            let run = next..(next + 1 + self.dice.below(6)).min(taken.end);
            let fate = if self.dice.below(3) == 0 {
                Fate::Rejected
            } else {
                let issue = Issue {
                    first: run.start,
                    last: run.end - 1,
                    key_id: self.dice.below(5).cast_signed(),
                    at_ms: self.now().as_millisecond(),
                };
                issues.push(issue.clone());
                Fate::Issued(issue)
            };
            next = run.end;
            self.counters[place].set(run, &fate);
        }
        let counter = &mut self.counters[place];
        counter.draws[number].start = taken.end;
        counter.draws.retain(|draw| !draw.is_empty());
        Some(IssueGroup { span: counter.span(taken), issues })
    }

    async fn record(&mut self) {
        let groups: Vec<_> = (0..=self.dice.below(3)).map_while(|_| self.use_up()).collect();
        for _ in 0..=self.dice.below(2) {
            self.store.record_issues(&groups).await.unwrap();
        }
    }

    async fn give_back(&mut self) {
        let Some((place, number)) = self.pick() else { return };
        let left = self.counters[place].draws[number].clone();
        let given = left.start + self.dice.below(left.end - left.start)..left.end;
        let span = self.counters[place].span(given.clone());
        let back = self.store.give_back(&span, &self.instance, self.now()).await.unwrap();
        let counter = &mut self.counters[place];
        if given.end == counter.next() {
            assert_eq!(back, GivenBack::ToCounter);
            counter.fates.truncate(usize::try_from(given.start - counter.bounds.0).unwrap());
        } else {
            assert_eq!(back, GivenBack::Gap);
            counter.set(given.clone(), &Fate::Gap(GapReason::PoolDiscarded));
        }
        counter.draws[number].end = given.start;
        counter.draws.retain(|draw| !draw.is_empty());
    }

    /// Starts again, in an orderly way or not, as another instance.
    async fn restart(mut self) -> Self {
        self.store = if self.dice.below(2) == 0 {
            reopen(self.fixture, self.store).await
        } else {
            crash(self.fixture, self.store).await
        };
        self.instance = format!("run {}", self.step);
        let found = self.store.close_lost_draws(&self.instance, self.now()).await.unwrap();
        let mut expected = Vec::new();
        for counter in &mut self.counters {
            for draw in std::mem::take(&mut counter.draws) {
                counter.set(draw.clone(), &Fate::Gap(GapReason::Crash));
                expected.push(counter.span(draw));
            }
        }
        assert_eq!(merged(&found), merge(expected));
        self
    }

    /// Compares every serial below each counter, and the first one behind it.
    async fn check(&self) {
        for counter in &self.counters {
            let id = counter.type_id;
            let stands = self.store.counters(id).await.unwrap();
            let next = stands.iter().find(|(period, _)| period == counter.period);
            if let Some((_, next)) = next {
                assert_eq!(*next, counter.next());
            } else {
                assert_eq!(counter.fates, []);
            }
            let fates = counter.fates.iter().map(Some).chain([None]);
            for (serial, fate) in (counter.bounds.0..).zip(fates) {
                let period = Some(counter.period);
                let issues = self.store.find_issues(id, period, serial).await.unwrap();
                let gaps = self.store.find_gaps(id, period, serial).await.unwrap();
                let issues: Vec<_> = issues.into_iter().map(|record| record.issue).collect();
                let reasons: Vec<_> = gaps.into_iter().map(|gap| gap.reason).collect();
                let expected = match fate {
                    Some(Fate::Issued(issue)) => (vec![issue.clone()], vec![]),
                    Some(Fate::Gap(reason)) => (vec![], vec![*reason]),
                    Some(Fate::Rejected) | None => (vec![], vec![]),
                    Some(Fate::Open) => panic!("{serial} is open after a restart"),
                };
                assert_eq!((issues, reasons), expected, "{} {serial}", counter.period);
            }
        }
    }
}

pub async fn every_serial_is_accounted_for_in_any_history(fixture: &dyn Fixture) {
    let mut store = fixture.open().await;
    for seed in 0..HISTORIES {
        println!("history {seed}");
        let a = new_sequence(&*store, &format!("a{seed}")).await;
        let b = new_sequence(&*store, &format!("b{seed}")).await;
        let counter = |type_id, period, bounds| Counter {
            type_id,
            period,
            bounds,
            fates: vec![],
            draws: vec![],
        };
        let counters = vec![
            counter(a, "", (0, 150)),
            counter(b, "2025", (1001, 1 << 40)),
            counter(b, "2026", (1001, 1 << 40)),
        ];
        let instance = "the first run".to_owned();
        let mut world = World { fixture, store, counters, dice: Dice(seed), instance, step: 0 };
        while world.step < STEPS {
            world.step += 1;
            match world.dice.below(20) {
                0..=7 => world.draw().await,
                8..=15 => world.record().await,
                16..=18 => world.give_back().await,
                _ => world = world.restart().await,
            }
        }
        world = world.restart().await;
        world.check().await;
        store = world.store;
    }
}
