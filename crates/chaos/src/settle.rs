//! The time after the last fault: everything comes back, and what is open is brought to an end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::account::{Account, is};
use crate::chance::Chance;
use crate::faults;
use crate::http::{Http, Order, Outcome};
use crate::id_types::{Kind, TYPES};
use crate::load::{CLIENTS, Client, Load, Memory, Scene};
use crate::serials::Serials;
use crate::world::{INSTANCES, World};

/// How long instances may take until they are ready again.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// How long clients go on once all are ready, to show that all of it works again.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// How long an order may be in flight when nobody works on it: the longest request, and the ten
/// seconds after which its claim is stale.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);

/// How long a type that is used up has to say so. Longer than instances keep what they do not need,
/// and than they trust that there is nothing.
const QUIET: Duration = Duration::from_secs(3);

/// IDs that are looked up over HTTP. The rest is compared in bulk.
const SAMPLE: usize = 150;

/// Waits until all instances are ready, and returns what clients remember.
pub(crate) fn recover(world: &mut World, load: Load) -> anyhow::Result<Memory> {
    let since = Instant::now();
    let http = Http::new();
    let mut ready = false;
    while !ready && since.elapsed() < READY_PATIENCE {
        world.wait(Duration::from_millis(50))?;
        world.revive()?;
        ready = (0..INSTANCES).all(|number| {
            let url = world.addresses.get(number);
            url.is_some_and(|url| http.get(&format!("{url}/readyz")).is_some())
        });
    }
    if ready {
        let ms = since.elapsed().as_millis();
        world.journal.say(&format!("all instances are ready, {ms} ms after the last fault"));
    } else {
        world.troubles.push("not all instances became ready again".to_owned());
    }
    world.wait(AFTERWARDS)?;
    Ok(load.stop())
}

/// A client for what is left to do.
pub(crate) fn last_client(world: &World, chance: &mut Chance) -> Client {
    let scene = Scene {
        addresses: Arc::clone(&world.addresses),
        watch: world.journal.watch,
        stop: Arc::new(AtomicBool::new(false)),
    };
    Client::new(scene, CLIENTS, chance.fork())
}

/// Gives every order again that had no answer. Now each must get one.
pub(crate) fn finish_orders(
    world: &World,
    client: &mut Client,
    open: Vec<Order>,
) -> anyhow::Result<()> {
    world.journal.say(&format!("{} orders with an idempotency key are still open", open.len()));
    for (place, order) in open.into_iter().enumerate() {
        let mut last = None;
        let mut instance = place;
        let answered = world.wait_until(OPEN_PATIENCE, || {
            instance = (instance + 1) % INSTANCES;
            let outcome = client.attempt(&order, instance);
            let done = matches!(outcome, Outcome::Issued(_) | Outcome::Refused(410, _));
            last = Some(outcome);
            done
        })?;
        if !answered {
            client.memory.wrong.push(format!("{order:?} is never answered, at last {last:?}"));
        }
    }
    Ok(())
}

/// Uses up the type that is meant for it, until every instance says that there is nothing left.
pub(crate) fn use_up(world: &World, client: &mut Client) -> anyhow::Result<()> {
    let id_type = TYPES.iter().position(|id_type| id_type.space.is_some());
    let id_type = id_type.context("a type that can be used up")?;
    let (mut quiet, mut instance, mut count) = (Instant::now(), 0, 50);
    let used_up = world.wait_until(Duration::from_secs(60), || {
        for _ in 0..20 {
            instance = (instance + 1) % INSTANCES;
            let order = Order { id_type, count, idempotency_key: None };
            match client.attempt(&order, instance) {
                Outcome::Refused(410, _) if count > 1 => count /= 2,
                Outcome::Refused(410, _) => {}
                _ => quiet = Instant::now(),
            }
        }
        quiet.elapsed() > QUIET
    })?;
    if !used_up {
        client.memory.wrong.push("the small type is not used up on every instance".to_owned());
    }
    Ok(())
}

/// Waits until everything that was lost is on record. Returns how many serials are still with
/// instances on record, though nobody asks them for any.
pub(crate) fn account_for_losses(world: &World) -> anyhow::Result<u64> {
    let since = Instant::now();
    let patience = 6 * world.lease + Duration::from_secs(5);
    let mut held = 0;
    let settled = world.wait_until(patience, || {
        Account::read(world).is_ok_and(|account| {
            held = account.held_by_instances();
            let alive = account.instances.values().filter(|alive| **alive).count();
            let explained = account.counters.iter().all(|(name, counter)| {
                !is(Kind::Sequence, name) || Serials::of(counter, &account).unexplained().is_empty()
            });
            account.holders_that_are_gone().is_empty()
                && explained
                && (alive, account.instances.len()) == (INSTANCES, INSTANCES)
        })
    })?;
    let (ms, words) = (since.elapsed().as_millis(), if settled { "" } else { "not " });
    world.journal.say(&format!("losses are {words}settled after {ms} ms"));
    Ok(held)
}

/// Asks instances about some of the IDs that were given, as a person would.
pub(crate) fn look_some_up(world: &World, memory: &mut Memory) -> anyhow::Result<()> {
    let http = Http::new();
    let step = memory.given.len().div_ceil(SAMPLE).max(1);
    let mut wrong = Vec::new();
    for (place, given) in memory.given.iter().enumerate().step_by(step) {
        world.wait(Duration::ZERO)?;
        let (id_type, id) = (&TYPES[given.id_type], &given.ids[given.ids.len() - 1]);
        let Some(url) = world.addresses.get(place % INSTANCES) else { continue };
        let url = format!(
            "{url}/api/v1/issuances?tenant={}&type={}&id={id}",
            id_type.tenant, id_type.name
        );
        let entries = http.get(&url).map(|history| {
            let count = |field: &str| history[field].as_array().map_or(0, Vec::len);
            (count("issuances"), count("gaps"), history)
        });
        // A taken row of a pool's table is the account of a random ID; its log may be lost.
        let fine = match &entries {
            Some((issuances, gaps, _)) if id_type.kind == Kind::Random => issuances + gaps <= 1,
            Some((issuances, gaps, _)) => issuances + gaps == 1,
            None => false,
        };
        if !fine {
            wrong.push(format!("{}/{} {id}: {entries:?}", id_type.tenant, id_type.name));
        }
    }
    memory.wrong.extend(wrong);
    Ok(())
}

/// Stops all instances in order.
pub(crate) fn stop_all(world: &mut World) {
    for number in 0..INSTANCES {
        faults::stop(world, number);
    }
}
