//! The faults: what each one breaks, and how it is mended.

use std::time::Duration;

use crate::chance::Chance;
use crate::proxy::Wire;
use crate::world::{INSTANCES, Peer, World};

/// How long an instance may take to stop when it is asked to: its own limit and some more.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// Something that breaks and is mended again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    kind: Kind,
    target: Target,
    /// How long it stays broken.
    pub(crate) hold: Duration,
}

/// What is hit. Two faults at the same time hit different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Instance(usize),
    Server(Peer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `kill -9`; started again at the end.
    Kill,
    /// SIGTERM; started again at the end.
    Stop,
    /// SIGSTOP, for less than the lease or for more.
    PauseShort,
    PauseLong,
    Cut(Peer, Wire),
    /// `kill -9` of a server, which is started again at the end.
    ServerKill,
    /// It accepts connections, but does not answer.
    ServerPause,
    /// An orderly restart.
    ServerRestart,
    RedisEmpty,
    /// A snapshot at the beginning, which Redis is sent back to at the end.
    RedisRestore,
    /// Out of memory.
    RedisFull,
    /// Every answer late.
    RedisSleep,
}

/// One fault of each kind for everything that it can hit, in random order.
pub(crate) fn deck(chance: &mut Chance, lease: Duration) -> Vec<Fault> {
    let any = |chance: &mut Chance| Target::Instance(chance.place(INSTANCES));
    let mut faults = Vec::new();
    for kind in [Kind::Kill, Kind::Kill, Kind::Stop, Kind::PauseShort, Kind::PauseLong] {
        faults.push((kind, any(chance)));
    }
    for peer in Peer::ALL {
        for wire in [Wire::Dropped, Wire::Swallowing, Wire::Stalled] {
            faults.push((Kind::Cut(peer, wire), any(chance)));
        }
        for kind in [Kind::ServerKill, Kind::ServerPause, Kind::ServerRestart] {
            faults.push((kind, Target::Server(peer)));
        }
    }
    for kind in [
        Kind::RedisEmpty,
        Kind::RedisRestore,
        Kind::RedisRestore,
        Kind::RedisFull,
        Kind::RedisSleep,
    ] {
        faults.push((kind, Target::Server(Peer::Redis)));
    }
    chance.shuffle(&mut faults);
    let mut timed = |(kind, target)| Fault { kind, target, hold: hold(kind, chance, lease) };
    faults.into_iter().map(&mut timed).collect()
}

fn hold(kind: Kind, chance: &mut Chance, lease: Duration) -> Duration {
    match kind {
        Kind::PauseShort => lease.mul_f64(0.2) + chance.millis(0, 400),
        Kind::PauseLong => lease.mul_f64(1.1) + chance.millis(0, 1500),
        Kind::ServerRestart | Kind::RedisEmpty => Duration::ZERO,
        Kind::RedisRestore | Kind::RedisFull => chance.millis(800, 3000),
        _ => chance.millis(200, 2200),
    }
}

impl Fault {
    /// Whether both can be broken at the same time.
    pub(crate) fn goes_with(&self, other: &Self) -> bool {
        self.target != other.target
    }

    /// What it is counted as.
    pub(crate) fn name(&self) -> &'static str {
        match (self.kind, self.target) {
            (Kind::Kill, _) => "instance killed",
            (Kind::Stop, _) => "instance stopped",
            (Kind::PauseShort, _) => "instance paused, within its lease",
            (Kind::PauseLong, _) => "instance paused, beyond its lease",
            (Kind::Cut(Peer::Redis, _), _) => "instance cut off from Redis",
            (Kind::Cut(..), _) => "instance cut off from PostgreSQL",
            (Kind::ServerKill, Target::Server(Peer::Redis)) => "Redis killed",
            (Kind::ServerPause, Target::Server(Peer::Redis)) => "Redis paused",
            (Kind::ServerRestart, Target::Server(Peer::Redis)) => "Redis restarted",
            (Kind::ServerKill, _) => "PostgreSQL killed",
            (Kind::ServerPause, _) => "PostgreSQL paused",
            (Kind::ServerRestart, _) => "PostgreSQL restarted",
            (Kind::RedisEmpty, _) => "Redis restarted empty",
            (Kind::RedisRestore, _) => "Redis restored from a snapshot",
            (Kind::RedisFull, _) => "Redis out of memory",
            (Kind::RedisSleep, _) => "Redis slow",
        }
    }

    fn words(&self) -> String {
        let name = self.name();
        match (self.kind, self.target) {
            (Kind::Cut(peer, wire), Target::Instance(number)) => {
                format!("{name}: instance {number}, {} {wire:?}", peer.name())
            }
            (_, Target::Instance(number)) => format!("{name}: instance {number}"),
            (_, Target::Server(peer)) => format!("{name}: {}", peer.name()),
        }
    }

    /// Breaks it. Returns its place in the journal, for the end.
    pub(crate) fn begin(&self, world: &mut World) -> anyhow::Result<usize> {
        let redis = self.target == Target::Server(Peer::Redis);
        let place = world.journal.begin(self.name(), self.words(), redis);
        match (self.kind, self.target) {
            (Kind::Kill, Target::Instance(number)) => world.instances[number].kill(),
            (Kind::Stop, Target::Instance(number)) => stop(world, number),
            (Kind::PauseShort | Kind::PauseLong, Target::Instance(number)) => {
                world.instances[number].signal("STOP");
            }
            (Kind::Cut(peer, wire), Target::Instance(number)) => {
                world.set_wire(number, peer, wire);
            }
            (Kind::ServerKill, Target::Server(peer)) => world.servers.tell("kill", peer.name()),
            (Kind::ServerPause, Target::Server(peer)) => world.servers.tell("pause", peer.name()),
            (Kind::ServerRestart, Target::Server(peer)) => {
                world.servers.tell("restart", peer.name());
            }
            (Kind::RedisEmpty, _) => world.servers.tell("empty", "redis"),
            (Kind::RedisRestore, _) => {
                // An older snapshot is as good. It is from another life of the server.
                if !world.has_snapshot || self.hold.as_millis().is_multiple_of(2) {
                    world.servers.tell("snapshot", "redis");
                    world.has_snapshot = true;
                }
            }
            (Kind::RedisFull, _) => set_memory(world, "1")?,
            (Kind::RedisSleep, _) => {
                let mut pause = redis::cmd("CLIENT");
                pause.arg("PAUSE").arg(self.hold.as_millis().to_string()).arg("ALL");
                world.redis::<()>(&pause)?;
            }
            _ => unreachable!("the deck has no such fault"),
        }
        Ok(place)
    }

    /// Mends it.
    pub(crate) fn end(&self, world: &mut World, place: usize) -> anyhow::Result<()> {
        match (self.kind, self.target) {
            (Kind::Kill | Kind::Stop, Target::Instance(number)) => world.start(number)?,
            (Kind::PauseShort | Kind::PauseLong, Target::Instance(number)) => {
                world.instances[number].signal("CONT");
            }
            (Kind::Cut(peer, _), Target::Instance(number)) => {
                world.set_wire(number, peer, Wire::Open);
            }
            (Kind::ServerKill, Target::Server(peer)) => world.servers.tell("restart", peer.name()),
            (Kind::ServerPause, Target::Server(peer)) => world.servers.tell("resume", peer.name()),
            (Kind::RedisRestore, _) => world.servers.tell("restore", "redis"),
            (Kind::RedisFull, _) => set_memory(world, "0")?,
            _ => {}
        }
        world.journal.end(place);
        Ok(())
    }
}

/// Stops an instance as a service manager does.
pub(crate) fn stop(world: &mut World, number: usize) {
    if !world.instances[number].is_running() {
        return;
    }
    // One that is not ready yet may not have learnt to stop in order.
    let listened = world.addresses.get(number).is_some();
    world.instances[number].signal("TERM");
    let ended = world.instances[number].wait(STOP_PATIENCE);
    let trouble = match ended {
        None => format!("instance {number} did not stop within {} s", STOP_PATIENCE.as_secs()),
        Some(status) if listened && !status.success() => {
            format!("instance {number} did not stop in order: {status}")
        }
        Some(_) => return,
    };
    world.journal.say(&trouble);
    world.troubles.push(trouble);
}

fn set_memory(world: &World, bytes: &str) -> anyhow::Result<()> {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(bytes);
    world.redis(&set)
}
