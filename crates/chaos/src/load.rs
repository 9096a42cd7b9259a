//! Clients that order IDs the whole time and remember what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::http::{Http, Order, Outcome};
use crate::id_types::TYPES;
use crate::instance::Addresses;
use crate::journal::Watch;
use crate::world::INSTANCES;

/// Clients at once. Each has one connection to every instance that it talks to.
pub(crate) const CLIENTS: usize = 30;

/// A pause after each order, in milliseconds: load, but not so much that the machine only spins.
const PAUSE_MS: (u64, u64) = (20, 130);

/// How often an order with an idempotency key is given again before it is left for later.
const ATTEMPTS: u32 = 6;

/// IDs that a client was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) id_type: usize,
    pub(crate) ids: Vec<String>,
    pub(crate) instance: usize,
    /// When the answer was there.
    pub(crate) at_ms: u64,
    pub(crate) order: String,
}

/// One attempt to get IDs, as its client saw it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id_type: usize,
    pub(crate) began_ms: u64,
    pub(crate) took: Duration,
    pub(crate) result: Result<(), String>,
}

/// Everything that a client remembers.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) given: Vec<Given>,
    pub(crate) attempts: Vec<Attempt>,
    /// Orders with an idempotency key that had no answer yet.
    pub(crate) open: Vec<Order>,
    /// Answers that must never be: another one to the same key, a wrong number of IDs, a status
    /// that nothing explains.
    pub(crate) wrong: Vec<String>,
}

impl Memory {
    pub(crate) fn absorb(&mut self, other: Self) {
        self.given.extend(other.given);
        self.attempts.extend(other.attempts);
        self.open.extend(other.open);
        self.wrong.extend(other.wrong);
    }
}

/// What clients share.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) watch: Watch,
    pub(crate) stop: Arc<AtomicBool>,
}

/// The clients at work.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Memory>>,
}

impl Load {
    pub(crate) fn start(addresses: &Arc<Addresses>, watch: Watch, chance: &mut Chance) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..CLIENTS)
            .map(|number| {
                let scene =
                    Scene { addresses: Arc::clone(addresses), watch, stop: Arc::clone(&stop) };
                let mut client = Client::new(scene, number, chance.fork());
                thread::spawn(move || {
                    while !client.scene.stop.load(Ordering::Relaxed) {
                        client.work();
                    }
                    client.memory
                })
            })
            .collect();
        Self { stop, clients }
    }

    /// Ends the clients and collects what they remember.
    pub(crate) fn stop(self) -> Memory {
        self.stop.store(true, Ordering::Relaxed);
        let mut memory = Memory::default();
        for client in self.clients {
            memory.absorb(client.join().expect("clients do not panic"));
        }
        memory
    }
}

/// One client.
pub(crate) struct Client {
    scene: Scene,
    http: Http,
    number: usize,
    orders: u64,
    chance: Chance,
    pub(crate) memory: Memory,
}

impl Client {
    pub(crate) fn new(scene: Scene, number: usize, chance: Chance) -> Self {
        let (http, memory) = (Http::new(), Memory::default());
        Self { scene, http, number, orders: 0, chance, memory }
    }

    /// One order to its end, and a pause.
    fn work(&mut self) {
        let order = self.next_order();
        // Mostly the same instance: a client that waits for a dead one must not make all wait.
        let home = self.number % INSTANCES;
        let instance = if self.chance.one_in(6) { self.other_than(home) } else { home };
        if order.idempotency_key.is_some() {
            self.insist(&order, instance);
        } else {
            self.attempt(&order, instance);
        }
        thread::sleep(self.chance.millis(PAUSE_MS.0, PAUSE_MS.1));
    }

    fn next_order(&mut self) -> Order {
        let mut share = self.chance.below(100);
        let id_type = TYPES.iter().position(|id_type| {
            let found = share < id_type.share;
            share = share.saturating_sub(id_type.share);
            found
        });
        let count = if self.chance.one_in(5) { self.chance.between(2, 50) } else { 1 };
        self.orders += 1;
        let key = format!("client-{}-order-{}", self.number, self.orders);
        Order {
            id_type: id_type.expect("the shares are out of a hundred"),
            count: usize::try_from(count).expect("it is at most 50"),
            idempotency_key: self.chance.one_in(3).then_some(key),
        }
    }

    fn other_than(&mut self, instance: usize) -> usize {
        (instance + 1 + self.chance.place(INSTANCES - 1)) % INSTANCES
    }

    /// Gives an order with an idempotency key until it is answered, each time to another instance.
    fn insist(&mut self, order: &Order, mut instance: usize) {
        for _ in 0..ATTEMPTS {
            match self.attempt(order, instance) {
                Outcome::Issued(ids) => {
                    if self.chance.one_in(8) {
                        self.repeat(order, instance, &ids);
                    }
                    return;
                }
                // Nothing was given, and nothing will be.
                Outcome::Refused(410, _) => return,
                _ => {}
            }
            if self.scene.stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(self.chance.millis(50, 300));
            instance = self.other_than(instance);
        }
        self.memory.open.push(order.clone());
    }

    /// Gives an order again that was answered. Only the same answer will do, or none.
    fn repeat(&mut self, order: &Order, instance: usize, ids: &[String]) {
        let other = self.other_than(instance);
        let Some(url) = self.scene.addresses.get(other) else { return };
        match self.http.order(&url, order) {
            Outcome::Issued(again) if again == ids => {}
            Outcome::Issued(again) => self.memory.wrong.push(format!(
                "{order:?} at {} ms: instance {instance} gave {ids:?}, and instance {other} then \
                 gave {again:?}",
                self.scene.watch.ms()
            )),
            _ => {}
        }
    }

    /// Gives an order once, and remembers what came of it.
    pub(crate) fn attempt(&mut self, order: &Order, instance: usize) -> Outcome {
        let Some(url) = self.scene.addresses.get(instance) else {
            return Outcome::NotThere;
        };
        let (began_ms, since) = (self.scene.watch.ms(), Instant::now());
        let outcome = self.http.order(&url, order);
        let took = since.elapsed();
        let id_type = order.id_type;
        let result = match &outcome {
            Outcome::Issued(ids) => {
                self.remember(order, instance, ids);
                Ok(())
            }
            Outcome::Refused(status, code) => {
                self.judge(order, instance, *status, code);
                Err(format!("{status} {code}"))
            }
            Outcome::Lost(_) => Err("no answer".to_owned()),
            Outcome::NotThere => Err("no connection".to_owned()),
        };
        self.memory.attempts.push(Attempt { id_type, began_ms, took, result });
        outcome
    }

    fn remember(&mut self, order: &Order, instance: usize, ids: &[String]) {
        let at_ms = self.scene.watch.ms();
        if ids.len() != order.count {
            let text = format!("{order:?} at {at_ms} ms: instance {instance} gave {ids:?}");
            self.memory.wrong.push(text);
        }
        let key = order.idempotency_key.as_deref().unwrap_or("no idempotency key");
        self.memory.given.push(Given {
            id_type: order.id_type,
            ids: ids.to_vec(),
            instance,
            at_ms,
            order: format!("client {}, {} IDs, {key}", self.number, order.count),
        });
    }

    /// Whatever breaks, there are only so many answers.
    fn judge(&mut self, order: &Order, instance: usize, status: u16, code: &str) {
        let fine = match status {
            503 => code != "without Retry-After",
            409 => order.idempotency_key.is_some() && code == "request_in_flight",
            410 => TYPES[order.id_type].space.is_some(),
            _ => false,
        };
        if !fine {
            let at_ms = self.scene.watch.ms();
            self.memory.wrong.push(format!(
                "{order:?} at {at_ms} ms: instance {instance} answered {status} {code}"
            ));
        }
    }
}
