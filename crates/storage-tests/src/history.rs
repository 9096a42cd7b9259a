//! Any history of draws, records, returns and crashes leaves every serial accounted for.
//!
//! An instance and a shared pool draw, serials go over from the pool to the instance, and now and
//! then somebody who was taken for gone writes a log late.
//!
//! Histories are made of dice, and a model that knows the fate of every serial runs beside the
//! store. In the end the store is asked about each one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use storage::{Draw, GapReason, GivenBack, Issue, IssueGroup, Span, Store, TypeId, pool_holder};

use crate::Fixture;
use crate::support::{Dice, LEASE, at, crash, merge, merged, new_sequence, reopen};

const HISTORIES: u64 = 6;
const STEPS: u64 = 120;

/// What became of a serial.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    /// It is with a holder.
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
    draws: Vec<Held>,
}

/// What is left of a draw, or of a part of one that was handed over.
#[derive(Clone)]
struct Held {
    serials: Range<u64>,
    holder: String,
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
    /// The holder of the shared pools' draws.
    pool: String,
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
        let holder = if self.dice.below(2) == 0 { &self.instance } else { &self.pool };
        let counter = &mut self.counters[place];
        let expected = counter.next()..(counter.next() + count).min(counter.bounds.1);
        let draw = Draw {
            type_id: counter.type_id,
            period: counter.period,
            count,
            bounds: counter.bounds,
            holder,
            revision: 0,
            now,
        };
        let drawn = self.store.draw(draw).await.unwrap();
        assert_eq!(drawn.is_empty(), expected.is_empty());
        if !expected.is_empty() {
            assert_eq!(drawn, expected);
            counter.fates.extend(drawn.clone().map(|_| Fate::Open));
            counter.draws.push(Held { serials: drawn, holder: holder.clone() });
        }
    }

    /// Hands over a part of what the pool holds.
    async fn hand_over(&mut self) {
        let Some((place, number)) = self.pick() else { return };
        let Held { serials: left, holder } = self.counters[place].draws[number].clone();
        let start = left.start + self.dice.below(left.end - left.start);
        let part = start..start + 1 + self.dice.below(left.end - start);
        let span = self.counters[place].span(part.clone());
        self.store.hand_over(&[span], &self.pool, &self.instance).await.unwrap();
        if holder == self.pool {
            let draws = &mut self.counters[place].draws;
            draws.remove(number);
            for (serials, holder) in [
                (left.start..part.start, &self.pool),
                (part.clone(), &self.instance),
                (part.end..left.end, &self.pool),
            ] {
                draws.push(Held { serials, holder: holder.clone() });
            }
            draws.retain(|draw| !draw.serials.is_empty());
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
        let left = self.counters[place].draws[number].serials.clone();
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
        counter.draws[number].serials.start = taken.end;
        counter.draws.retain(|draw| !draw.serials.is_empty());
        Some(IssueGroup { span: counter.span(taken), issues })
    }

    async fn record(&mut self) {
        let groups: Vec<_> = (0..=self.dice.below(3)).map_while(|_| self.use_up()).collect();
        for _ in 0..=self.dice.below(2) {
            self.store.record_issues(&groups).await.unwrap();
        }
    }

    /// Writes a log entry for serials that were given up.
    async fn record_late(&mut self) {
        let place = self.dice.place(&self.counters);
        let at_ms = self.now().as_millisecond();
        let counter = &mut self.counters[place];
        let is_gap = |fate: &Fate| matches!(fate, Fate::Gap(_));
        let lost: Vec<_> = (counter.bounds.0..)
            .zip(&counter.fates)
            .filter_map(|(serial, fate)| is_gap(fate).then_some(serial))
            .collect();
        if lost.is_empty() {
            return;
        }
        let first = lost[self.dice.place(&lost)];
        let run = (first..).take(4).take_while(|serial| lost.contains(serial)).count() as u64;
        let issued = first..first + 1 + self.dice.below(run);
        let issue = Issue { first, last: issued.end - 1, key_id: 9, at_ms };
        let group = IssueGroup { span: counter.span(issued.clone()), issues: vec![issue.clone()] };
        self.store.record_issues(&[group]).await.unwrap();
        counter.set(issued, &Fate::Issued(issue));
    }

    async fn give_back(&mut self) {
        let Some((place, number)) = self.pick() else { return };
        let Held { serials: left, holder } = self.counters[place].draws[number].clone();
        let given = left.start + self.dice.below(left.end - left.start)..left.end;
        let span = self.counters[place].span(given.clone());
        let back = self.store.give_back(&span, &holder, self.now()).await.unwrap();
        let counter = &mut self.counters[place];
        if given.end == counter.next() {
            assert_eq!(back, GivenBack::ToCounter);
            counter.fates.truncate(usize::try_from(given.start - counter.bounds.0).unwrap());
        } else {
            assert_eq!(back, GivenBack::Gap);
            counter.set(given.clone(), &Fate::Gap(GapReason::PoolDiscarded));
        }
        counter.draws[number].serials.end = given.start;
        counter.draws.retain(|draw| !draw.serials.is_empty());
    }

    /// Starts again, in an orderly way or not, as another instance, and with the same pool server
    /// or another.
    async fn restart(mut self, new_server: bool) -> Self {
        self.store = if self.dice.below(2) == 0 {
            reopen(self.fixture, self.store).await
        } else {
            crash(self.fixture, self.store).await
        };
        self.instance = format!("run {}", self.step);
        self.store.join(&self.instance, LEASE).await.unwrap();
        if new_server {
            self.pool = new_pool(&*self.store, self.now()).await;
        }
        // An epoch that ends with this step has to have ended longer ago than no time at all.
        self.step += 1;
        let (grace, now) = (Duration::ZERO, self.now());
        let found = self.store.close_lost_draws(&self.instance, grace, now).await.unwrap();
        let mut expected = Vec::new();
        for counter in &mut self.counters {
            for draw in std::mem::take(&mut counter.draws) {
                if self.fixture.many_instances() && draw.holder == self.pool {
                    counter.draws.push(draw);
                    continue;
                }
                let of_pool = draw.holder.starts_with("pool-");
                let reason = if of_pool { GapReason::PoolDiscarded } else { GapReason::Crash };
                counter.set(draw.serials.clone(), &Fate::Gap(reason));
                expected.push(counter.span(draw.serials));
            }
        }
        assert_eq!(merged(&found.gaps), merge(expected));
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

/// The pool of an epoch that begins with this.
async fn new_pool(store: &dyn Store, now: jiff::Timestamp) -> String {
    let current = store.current_pool_epoch().await.unwrap();
    let server = format!("the server after epoch {current:?}");
    pool_holder(store.pool_epoch(&server, now).await.unwrap())
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
        store.join(&instance, LEASE).await.unwrap();
        let pool = new_pool(&*store, at(0)).await;
        let dice = Dice(seed);
        let mut world = World { fixture, store, counters, dice, instance, pool, step: 0 };
        while world.step < STEPS {
            world.step += 1;
            match world.dice.below(26) {
                0..=7 => world.draw().await,
                8..=15 => world.record().await,
                16..=18 => world.give_back().await,
                19..=22 => world.hand_over().await,
                23..=24 => world.record_late().await,
                _ => {
                    let new_server = world.dice.below(2) == 0;
                    world = world.restart(new_server).await;
                }
            }
        }
        world = world.restart(true).await;
        world.check().await;
        store = world.store;
    }
}
