//! One fault after the other, and now and then two at once.

use std::time::Duration;

use crate::chance::Chance;
use crate::faults::{self, Fault};
use crate::world::World;

/// Breaks and mends until the time is over. What is broken then is still mended.
pub(crate) fn run(world: &mut World, chance: &mut Chance, time: Duration) -> anyhow::Result<()> {
    let end_ms = world.journal.watch.ms() + u64::try_from(time.as_millis())?;
    let mut deck: Vec<Fault> = Vec::new();
    while world.journal.watch.ms() < end_ms {
        if deck.len() < 2 {
            deck.extend(faults::deck(chance, world.lease));
        }
        let first = deck.remove(0);
        // One in four comes with another one, if the next can be broken as well.
        if chance.one_in(4) && first.goes_with(&deck[0]) {
            both(world, chance, first, deck.remove(0))?;
        } else {
            let place = first.begin(world)?;
            world.wait(first.hold)?;
            first.end(world, place)?;
        }
        world.revive()?;
        world.wait(chance.millis(300, 1500))?;
    }
    Ok(())
}

/// The second begins during the first, and ends after it.
fn both(world: &mut World, chance: &mut Chance, first: Fault, second: Fault) -> anyhow::Result<()> {
    let first_place = first.begin(world)?;
    world.wait(first.hold.mul_f64(0.5) + chance.millis(0, 200))?;
    let second_place = second.begin(world)?;
    world.wait(first.hold.mul_f64(0.5))?;
    first.end(world, first_place)?;
    world.wait(second.hold)?;
    second.end(world, second_place)
}
