//! Random codes of 16 symbols of 32, as text, against the `fpe` crate with the same key.

use std::hint::black_box;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use aes::Aes256;
use anyhow::ensure;
use fpe::ff1::{FF1, FlexibleNumeralString};
use idgen::alphabet::Alphabet;
use idgen::check::Check;
use idgen::filters::FilterSpec;
use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::random::RandomFormat;
use idgen::spec::{DEFAULT_TENANT, IdType, Kind, RandomSpec};

use super::{Measurement, median, parse_seconds};
use crate::failure::Failure;

const SYMBOLS: u8 = 16;
const KEY: [u8; 32] = *b"the same key for both contenders";

/// The contenders take turns, so that a busy moment of the machine hits both.
const ROUNDS: u8 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds for each contender
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds, allow_negative_numbers = true)]
    seconds: f64,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let ours = Ours::new();
    let theirs = Theirs::new();
    for serial in [0, 1, 999_999_999, u64::from(u32::MAX) << 20] {
        let (ours, theirs) = (ours.one(serial), theirs.one(serial));
        ensure_same(&ours, &theirs)?;
    }
    let turn = Duration::from_secs_f64(args.seconds / f64::from(ROUNDS));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let value = rate(threads, turn, |from| ours.render(from, 24_000));
            let baseline = rate(threads, turn, |from| theirs.render(from, 500));
            rates.push((value, baseline));
        }
        let value = median(rates.iter().map(|(value, _)| *value));
        let baseline = median(rates.iter().map(|(_, baseline)| *baseline));
        Measurement {
            threads: Some(threads),
            ..Measurement::new("render", "codes/s", value, baseline)
        }
        .print(args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn ensure_same(ours: &str, theirs: &str) -> anyhow::Result<()> {
    ensure!(
        ours == theirs,
        "the results differ: {ours} and {theirs}; the comparison means nothing"
    );
    Ok(())
}

/// Codes per second of all threads together.
#[expect(clippy::cast_precision_loss, reason = "a rate does not need 53 bits")]
fn rate(threads: usize, time: Duration, render: impl Fn(u64) -> u64 + Sync) -> f64 {
    let started = Instant::now();
    let work = |thread: usize| {
        let mut from = (thread as u64) << 40;
        let mut made = 0;
        while started.elapsed() < time {
            let count = render(from);
            from += count;
            made += count;
        }
        made
    };
    let work = &work;
    let made: u64 = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic in a benchmark")).sum()
    });
    made as f64 / started.elapsed().as_secs_f64()
}

/// The bulk path of idgen.
struct Ours(Box<RandomFormat>);

impl Ours {
    fn new() -> Self {
        let spec = RandomSpec {
            alphabet: Alphabet::new("crockford32").expect("a known alphabet"),
            length: SYMBOLS,
            check: Check::None,
            filters: FilterSpec::None,
            group: None,
            allow_dense: false,
            ledger: idgen::spec::Ledger::Stored,
        };
        let id_type = IdType::new(DEFAULT_TENANT, "bench", Kind::Random(spec)).expect("valid");
        match Format::new(&id_type, &TypeKey::new(KEY)) {
            Format::Random(format) => Self(format),
            _ => unreachable!("a random type was asked for"),
        }
    }

    fn one(&self, serial: u64) -> String {
        self.0.render(serial).expect("there are no filters")
    }

    fn render(&self, from: u64, count: u64) -> u64 {
        let mut buffer = Vec::with_capacity(1 << 20);
        let made = self.0.render_range(from..from + count, &mut buffer);
        black_box(buffer);
        made
    }
}

/// The `fpe` crate, used as its documentation shows.
struct Theirs {
    cipher: FF1<Aes256>,
    alphabet: Alphabet,
}

impl Theirs {
    fn new() -> Self {
        Self {
            cipher: FF1::new(&KEY, 32).expect("a valid radix"),
            alphabet: Alphabet::new("crockford32").expect("a known alphabet"),
        }
    }

    fn one(&self, serial: u64) -> String {
        let numerals = (0..SYMBOLS).rev().map(|place| {
            let shifted = u128::from(serial) >> (5 * u32::from(place));
            u16::try_from(shifted & 31).expect("five bits")
        });
        let plain = FlexibleNumeralString::from(numerals.collect::<Vec<_>>());
        let cipher = self.cipher.encrypt(&[], &plain).expect("valid numerals");
        Vec::<u16>::from(cipher)
            .into_iter()
            .map(|numeral| self.alphabet.symbol(u8::try_from(numeral).expect("five bits")))
            .collect()
    }

    fn render(&self, from: u64, count: u64) -> u64 {
        for serial in from..from + count {
            black_box(self.one(serial));
        }
        count
    }
}
