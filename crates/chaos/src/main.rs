#![doc = include_str!("../README.md")]

mod account;
mod batch_check;
mod batches;
mod chance;
mod documents;
mod faults;
mod http;
mod id_types;
mod instance;
mod journal;
mod load;
mod proxy;
mod report;
mod schedule;
mod serials;
mod settle;
mod verify;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

use account::Account;
use batches::Orderers;
use chance::Chance;
use documents::Writers;
use load::Load;
use report::Report;
use verify::Findings;
use world::{Plan, World};

/// Three instances of Mintage under load, while instances, Redis and PostgreSQL are killed, paused,
/// restarted and cut off, and Redis is sent back to old snapshots. At the end every ID has to be
/// accounted for. Everything runs on this machine and is gone afterwards.
#[derive(Debug, Parser)]
#[command(name = "chaos", bin_name = "scripts/chaos")]
struct Args {
    /// How long to break things, in seconds; starting and checking come on top
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Decides on the order of the faults; any by default
    #[arg(long)]
    seed: Option<u64>,

    /// Print an object in place of the table
    #[arg(long)]
    json: bool,

    /// The executable to test
    #[arg(long, value_name = "FILE", default_value = "target/debug/mintage")]
    mintage: PathBuf,
}

/// Exit code of a run that somebody has ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    if let Err(problem) = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
        eprintln!("chaos: cannot be interrupted in order: {problem}");
    }
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()) * 7919 % 100_000);
    eprintln!("seed {seed}, {} s of faults", args.seconds);
    let logs = match tempfile::Builder::new().prefix("mintage-chaos-").tempdir() {
        Ok(logs) => logs,
        Err(problem) => {
            eprintln!("chaos: no directory for logs: {problem}");
            return ExitCode::FAILURE;
        }
    };
    // Commands of the test may fail when somebody presses Ctrl-C, and then it panics. Whatever the
    // end is, all processes end with it.
    let ran = catch_unwind(AssertUnwindSafe(|| run(&args, seed, logs.path(), &interrupted)));
    let good = match ran {
        _ if interrupted.load(Ordering::Relaxed) => {
            eprintln!("interrupted");
            return ExitCode::from(INTERRUPTED);
        }
        Ok(Ok(report)) => {
            if args.json {
                println!("{:#}", report.json());
            } else {
                println!("{}", report.table());
            }
            eprint!("{}", report.details());
            report.is_good()
        }
        Ok(Err(problem)) => {
            eprintln!("chaos: {problem:#}");
            false
        }
        Err(_) => false,
    };
    if good {
        return ExitCode::SUCCESS;
    }
    let kept = logs.keep();
    eprintln!("failed; logs are in {}; again: --seed {seed}", kept.display());
    ExitCode::FAILURE
}

fn run(
    args: &Args,
    seed: u64,
    directory: &Path,
    interrupted: &Arc<AtomicBool>,
) -> anyhow::Result<Report> {
    let mut chance = Chance::new(seed);
    let executable = args.mintage.canonicalize();
    let executable = executable.with_context(|| format!("{}", args.mintage.display()))?;
    let mut world = World::build(Plan {
        executable,
        directory: directory.to_owned(),
        lease_seconds: chance.between(1, 2),
        interrupted: Arc::clone(interrupted),
    })?;
    // All at the same moment, on empty databases.
    for number in 0..world::INSTANCES {
        world.start(number)?;
    }
    let addresses = Arc::clone(&world.addresses);
    let all_listen = || (0..world::INSTANCES).all(|number| addresses.get(number).is_some());
    if !world.wait_until(Duration::from_secs(60), all_listen)? {
        world.revive()?;
        anyhow::bail!("the instances do not start");
    }
    world.journal.say("all instances listen");

    let load = Load::start(&world.addresses, world.journal.watch, &mut chance);
    world.wait(Duration::from_secs(1))?;
    let orderers = Orderers::start(&world.addresses, &mut chance);
    let writers = Writers::start(&world, &mut chance)?;
    schedule::run(&mut world, &mut chance.fork(), Duration::from_secs(args.seconds))?;
    let mut memory = settle::recover(&mut world, load)?;
    let mut client = settle::last_client(&world, &mut chance);
    let batches = orderers.check(&world)?;
    let mut documents = writers.check(&world, directory)?;
    memory.wrong.extend(batches.wrong.iter().cloned());
    let open = std::mem::take(&mut memory.open);
    settle::finish_orders(&world, &mut client, open)?;
    settle::use_up(&world, &mut client)?;
    memory.absorb(client.memory);
    let held_while_idle = settle::account_for_losses(&world)?;
    settle::look_some_up(&world, &mut memory)?;
    world.revive()?;
    settle::stop_all(&mut world);
    world.look_for_panics(directory);

    world.journal.say("all instances have stopped; comparing");
    let account = Account::read(&world)?;
    documents.account_for(&account);
    memory.wrong.extend(documents.wrong.iter().cloned());
    let mut findings = Findings::collect(&memory, &account, &world.journal);
    findings.nothing_is_held(&account);
    let troubles = std::mem::take(&mut world.troubles);
    findings.held_while_idle = held_while_idle;
    let run = (seed, args.seconds);
    Ok(Report::new(run, &world.journal, &memory, (batches, documents), findings, troubles))
}
