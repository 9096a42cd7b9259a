//! `mintage generate`: codes in a file, without a server.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use idgen::capacity::Capacity;
use idgen::filters::FilterSpec;
use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::spec::{IdType, Kind, RandomSpec, SERIAL_MAX};
use jiff::civil::Date;

use super::numbers::whole;
use super::type_args::TypeArgs;
use crate::failure::Failure;
use crate::message::say;
use crate::offline::interrupts::Interrupts;
use crate::offline::key_file::{self, Origin};
use crate::offline::output::Output;
use crate::offline::place::Place;
use crate::offline::produce::{Order, Produced, Source};
use crate::offline::progress;
use crate::offline::rows::{Column, FileFormat, Rows};

/// Threads beyond this only take memory.
const THREADS_MAX: u64 = 64;

/// Candidates looked at to see, in an instant, that a type has far more codes than are asked for.
const QUICK_LOOK: u64 = 200_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    id_type: TypeArgs,

    /// How many codes to make
    #[arg(long, value_parser = whole::<u64>(1..=SERIAL_MAX), allow_negative_numbers = true)]
    count: u64,

    /// File to write, or - for standard output; it appears when it is complete
    #[arg(long, default_value = "-", value_name = "FILE")]
    out: PathBuf,

    /// File format; taken from the ending of --out where that is one of these names
    #[arg(long, value_enum)]
    format: Option<FileFormat>,

    /// Columns of each row
    #[arg(long, value_enum, value_delimiter = ',', default_value = "code")]
    columns: Vec<Column>,

    /// Start a CSV file with the names of the columns
    #[arg(long)]
    header: bool,

    /// First serial; a run says where the next one has to begin
    #[arg(long, value_name = "SERIAL", value_parser = whole::<u64>(0..=SERIAL_MAX - 1), allow_negative_numbers = true)]
    from: Option<u64>,

    /// The key that decides which codes are made; made if it is missing
    #[arg(long, value_name = "FILE", default_value = "mintage.key")]
    key_file: PathBuf,

    /// Date of issue for templates that show one [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<Date>,

    /// Threads that render [default: one for each core]
    #[arg(long, value_parser = whole::<usize>(1..=THREADS_MAX), allow_negative_numbers = true)]
    threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // Everything that can be refused is refused before anything is made.
    let id_type = args.id_type.id_type()?;
    args.check_columns()?;
    let place = args.place()?;
    let known_key = args.known_key(&id_type)?;
    let mut order = args.order(&id_type, known_key.as_ref().unwrap_or(&NO_KEY))?;
    args.check_capacity(&id_type)?;

    let interrupts = Interrupts::watch()?;
    let mut output = Output::open(place, &interrupts)?;
    if known_key.is_none() {
        let made = interrupts.whole_step(|_| key_file::read_or_create(&args.key_file));
        let (key, origin) = made?;
        if origin == Origin::Created {
            say(format_args!(
                "made a new key in {}; keep it safe: without it the codes cannot be traced or continued",
                args.key_file.display()
            ));
        }
        order.source = args.source(&id_type, &key)?;
    }
    let started = Instant::now();
    let produced = args.produce(&order, &mut output)?;
    if produced.count < args.count {
        return Err(anyhow::anyhow!(
            "the ID type has only {} from serial {} on, {} were asked for",
            codes(produced.count, "valid "),
            order.first,
            args.count
        )
        .into());
    }
    let name = output.name();
    output.finish()?;
    say(format_args!(
        "{} in {name}, {:.1} s; the next run must use --from {}",
        codes(produced.count, ""),
        started.elapsed().as_secs_f64(),
        produced.next_serial
    ));
    Ok(ExitCode::SUCCESS)
}

/// Stands in where no key is needed, or not yet.
const NO_KEY: TypeKey = TypeKey::new([0; TypeKey::BYTES]);

impl Args {
    fn check_columns(&self) -> Result<(), Failure> {
        if self.header && self.file_format() != FileFormat::Csv {
            return Err(Failure::usage("--header: only CSV files begin with the names of columns"));
        }
        let twice = |(i, column)| self.columns[..i].contains(column);
        if self.columns.iter().enumerate().any(twice) {
            return Err(Failure::usage("--columns: every column can be there once only"));
        }
        Ok(())
    }

    /// Where the codes go, unless that is a file which is needed afterwards.
    fn place(&self) -> Result<Place, Failure> {
        let place = Place::find(&self.out)?;
        let others =
            [("--key-file", Some(self.key_file.as_path())), ("--type-file", self.id_type.file())];
        for (flag, path) in others {
            if path.is_some_and(|path| place.is_file(path)) {
                return Err(Failure::usage(format!(
                    "--out and {flag} are the same file, and the codes would replace it; \
                     use another one for the codes"
                )));
            }
        }
        Ok(place)
    }

    /// The key that there is. None where one has to be made.
    fn known_key(&self, id_type: &IdType) -> Result<Option<TypeKey>, Failure> {
        match id_type.kind() {
            Kind::Random(_) => Ok(key_file::read(&self.key_file)?),
            _ => Ok(Some(NO_KEY)),
        }
    }

    fn order(&self, id_type: &IdType, key: &TypeKey) -> Result<Order, Failure> {
        let source = self.source(id_type, key)?;
        let start = match id_type.kind() {
            Kind::Sequence(spec) => spec.start,
            _ => 0,
        };
        let first = self.from.unwrap_or(start);
        if first < start {
            return Err(Failure::usage(format!(
                "--from {first} is before the start of the sequence, {start}"
            )));
        }
        let left = source.serials_end().saturating_sub(first);
        if self.count > left {
            return Err(Failure::usage(format!(
                "--count {} is beyond the space: from serial {first} on there are {left} serials",
                self.count
            )));
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads_max = usize::try_from(THREADS_MAX).expect("a small number");
        Ok(Order {
            source,
            rows: Rows::new(self.file_format(), self.columns.clone()),
            first,
            count: self.count,
            threads: self.threads.unwrap_or(cores.min(threads_max)),
        })
    }

    fn source(&self, id_type: &IdType, key: &TypeKey) -> Result<Source, Failure> {
        match Format::new(id_type, key) {
            Format::Random(format) => Ok(Source::Random(format)),
            Format::Sequence(format) => {
                let date = self.date.unwrap_or_else(today);
                format.on(date).map(Source::Sequence).map_err(Failure::usage)
            }
            Format::Snowflake(_) => Err(Failure::usage(
                "snowflakes are made of the time and a node number that must not be used twice; \
                 only a server can make them",
            )),
        }
    }

    /// Filters leave fewer codes than there are serials.
    fn check_capacity(&self, id_type: &IdType) -> Result<(), Failure> {
        match id_type.kind() {
            Kind::Random(spec) if spec.filters != FilterSpec::None => {
                let Some(most) = fewer_than(self.count, spec)? else { return Ok(()) };
                Err(Failure::usage(format!(
                    "--count {} is beyond what the filters leave: {most}",
                    self.count
                )))
            }
            _ => Ok(()),
        }
    }

    fn produce(&self, order: &Order, output: &mut Output) -> Result<Produced, Failure> {
        let bar = progress::bar(self.count, !output.is_terminal());
        let produced = self
            .write_header(order, output)
            .and_then(|()| order.produce(output, |count| bar.inc(count)));
        bar.finish_and_clear();
        produced.map_err(|error| {
            let name = output.name();
            anyhow::Error::from(error).context(format!("cannot write to {name}")).into()
        })
    }

    fn write_header(&self, order: &Order, output: &mut Output) -> io::Result<()> {
        if self.header { output.write_all(order.rows.header().as_bytes()) } else { Ok(()) }
    }

    fn file_format(&self) -> FileFormat {
        let by_name = || match self.out.extension()?.to_str()? {
            "ndjson" | "jsonl" => Some(FileFormat::Ndjson),
            "txt" => Some(FileFormat::Txt),
            _ => None,
        };
        self.format.or_else(by_name).unwrap_or(FileFormat::Csv)
    }
}

#[expect(clippy::disallowed_methods, reason = "a command for people: its today is the real one")]
fn today() -> Date {
    jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date()
}

/// In words how many codes a type has, if that is certainly fewer than `count`. Where none was
/// found among millions, looking on would take for ever, so that counts as none at all.
fn fewer_than(count: u64, spec: &RandomSpec) -> Result<Option<String>, Failure> {
    let count = u128::from(count);
    let quick = Capacity::within(spec, QUICK_LOOK).map_err(Failure::usage)?;
    if quick.issuable_low() >= count && quick.valid > 0 {
        return Ok(None);
    }
    let capacity = Capacity::of(spec).map_err(Failure::usage)?;
    let valid = codes(capacity.issuable(), "valid ");
    Ok(if capacity.valid == 0 {
        Some("they reject every code that was tried".to_owned())
    } else if capacity.issuable_high() >= count {
        None
    } else if capacity.exact {
        Some(format!("the ID type has {valid}"))
    } else {
        Some(format!("the ID type has about {valid}"))
    })
}

/// `1 code`, `2 codes`.
fn codes(count: impl Into<u128>, which: &str) -> String {
    let count = count.into();
    format!("{count} {which}code{}", if count == 1 { "" } else { "s" })
}
