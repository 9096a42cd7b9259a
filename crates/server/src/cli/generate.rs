//! `mintage generate`: codes in a file, without a server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use idgen::format::Format;
use idgen::key::TypeKey;
use idgen::spec::{IdType, Kind};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::civil::Date;

use super::type_args::TypeArgs;
use crate::failure::Failure;
use crate::offline::key_file::{self, Origin};
use crate::offline::output::Output;
use crate::offline::produce::{Order, Source, Unfinished};
use crate::offline::rows::{Column, FileFormat, Rows};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    id_type: TypeArgs,

    /// How many codes to make
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
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
    #[arg(long, value_name = "SERIAL")]
    from: Option<u64>,

    /// The key that decides which codes are made; made if it is missing
    #[arg(long, value_name = "FILE", default_value = "mintage.key")]
    key_file: PathBuf,

    /// Date of issue for templates that show one [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<Date>,

    /// Threads that render [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let id_type = args.id_type.id_type()?;
    let order = args.order(&id_type)?;
    let interrupted = watch_for_interrupts()?;
    let mut output = Output::open(&args.out)?;

    let bar = progress_bar(args.count);
    let started = Instant::now();
    let produced = write_header(args, &order, &mut output)
        .and_then(|()| order.produce(&mut output, &interrupted, |count| bar.inc(count)));
    bar.finish_and_clear();
    let produced = match produced {
        Ok(produced) => produced,
        Err(Unfinished::Interrupted) => return Err(Failure::Interrupted),
        Err(Unfinished::Write(error)) => {
            let name = output.name();
            return Err(anyhow::Error::from(error)
                .context(format!("cannot write to {name}"))
                .into());
        }
    };
    if produced.count < args.count {
        return Err(anyhow::anyhow!(
            "the ID type has only {} valid codes from serial {} on, {} were asked for",
            produced.count,
            order.first,
            args.count
        )
        .into());
    }
    let name = output.name();
    output.finish()?;
    eprintln!(
        "{} codes in {name}, {:.1} s; the next run must use --from {}",
        produced.count,
        started.elapsed().as_secs_f64(),
        produced.next_serial
    );
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn order(&self, id_type: &IdType) -> Result<Order, Failure> {
        let source = self.source(id_type)?;
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
        Ok(Order {
            source,
            rows: Rows::new(self.file_format(), self.columns.clone()),
            first,
            count: self.count,
            threads: self.threads.map_or(cores, usize::from),
        })
    }

    fn source(&self, id_type: &IdType) -> Result<Source, Failure> {
        let key = match id_type.kind() {
            Kind::Random(_) => self.key()?,
            _ => TypeKey::new([0; TypeKey::BYTES]),
        };
        match Format::new(id_type, &key) {
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

    fn key(&self) -> Result<TypeKey, Failure> {
        let (key, origin) = key_file::read_or_create(&self.key_file)?;
        if origin == Origin::Created {
            eprintln!(
                "made a new key in {}; keep it safe: without it the codes cannot be traced or continued",
                self.key_file.display()
            );
        }
        Ok(key)
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

fn today() -> Date {
    jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date()
}

fn write_header(args: &Args, order: &Order, output: &mut Output) -> Result<(), Unfinished> {
    use std::io::Write as _;
    if args.header && args.file_format() == FileFormat::Csv {
        output.write_all(order.rows.header().as_bytes()).map_err(Unfinished::Write)?;
    }
    Ok(())
}

/// The first Ctrl-C asks the work to stop and clean up; a second one ends the process.
fn watch_for_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(interrupted)
}

fn progress_bar(count: u64) -> ProgressBar {
    // Draws nothing where standard error is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    let style = "{bar:40} {percent:>3}% {human_pos}/{human_len} codes, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
