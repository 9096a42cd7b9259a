//! A load generator that costs as little as possible: prepared requests over plain connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a run found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) requests_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// How long each request of some runs took, and all of them together.
#[derive(Debug, Default)]
pub(super) struct Times {
    latencies_ns: Vec<u64>,
    elapsed: Duration,
}

impl Times {
    pub(super) fn add(&mut self, other: Self) {
        self.latencies_ns.extend(other.latencies_ns);
        self.elapsed += other.elapsed;
    }

    pub(super) fn load(mut self) -> Load {
        self.latencies_ns.sort_unstable();
        Load {
            requests_per_second: rate(self.latencies_ns.len(), self.elapsed),
            p50_ms: quantile_ms(&self.latencies_ns, 0.50),
            p99_ms: quantile_ms(&self.latencies_ns, 0.99),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits")]
fn rate(requests: usize, elapsed: Duration) -> f64 {
    requests as f64 / elapsed.as_secs_f64()
}

/// A request as it is sent.
pub(super) fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// When a connection has sent enough.
#[derive(Clone, Copy)]
enum Until {
    Time(Instant),
    Count(usize),
}

/// Sends requests, again and again, over so many connections, each waiting for its answer. Every
/// connection begins with another one.
pub(super) async fn run(
    address: SocketAddr,
    requests: &Arc<[String]>,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Load> {
    Ok(time_requests(address, requests, connections, time).await?.load())
}

/// The same as a part of several runs.
pub(super) async fn time_requests(
    address: SocketAddr,
    requests: &Arc<[String]>,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Times> {
    let until = Until::Time(Instant::now() + time);
    run_until(address, requests, connections, |_| until).await
}

/// The same, so many requests in all.
pub(super) async fn run_count(
    address: SocketAddr,
    requests: &Arc<[String]>,
    connections: usize,
    count: usize,
) -> anyhow::Result<Load> {
    let (each, rest) = (count / connections, count % connections);
    let share = |number| Until::Count(each + usize::from(number < rest));
    Ok(run_until(address, requests, connections, share).await?.load())
}

async fn run_until(
    address: SocketAddr,
    requests: &Arc<[String]>,
    connections: usize,
    until: impl Fn(usize) -> Until,
) -> anyhow::Result<Times> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|number| {
            let first = number * requests.len() / connections;
            tokio::spawn(one_connection(address, Arc::clone(requests), first, until(number)))
        })
        .collect();
    let mut latencies_ns = Vec::new();
    for task in tasks {
        latencies_ns.extend(task.await.context("a connection's task failed")??);
    }
    Ok(Times { latencies_ns, elapsed: started.elapsed() })
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a list, and a time for people"
)]
pub(super) fn quantile_ms(sorted_ns: &[u64], quantile: f64) -> f64 {
    let index = (sorted_ns.len() as f64 * quantile) as usize;
    sorted_ns.get(index.min(sorted_ns.len().saturating_sub(1))).map_or(0.0, |&ns| ns as f64 / 1e6)
}

async fn one_connection(
    address: SocketAddr,
    requests: Arc<[String]>,
    first: usize,
    until: Until,
) -> anyhow::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut latencies = Vec::with_capacity(1 << 16);
    let mut buffer = vec![0; 64 << 10];
    for request in requests.iter().cycle().skip(first) {
        let enough = match until {
            Until::Time(end) => Instant::now() >= end,
            Until::Count(count) => latencies.len() >= count,
        };
        if enough {
            break;
        }
        let sent = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream, &mut buffer).await?;
        latencies.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(latencies)
}

/// Reads one answer to its end; anything but 200 or 202 spoils the measurement.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<()> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            bail!("the server closed the connection");
        }
        filled += read;
        if let Some(length) = answer_length(&buffer[..filled])? {
            if filled >= length {
                return Ok(());
            }
            if length > buffer.len() {
                bail!("an answer of {length} bytes is too large for this benchmark");
            }
        }
    }
}

/// The length of the whole answer, once its headers are here.
fn answer_length(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&answer[..head]).context("headers are text")?;
    if !text.starts_with("HTTP/1.1 200") && !text.starts_with("HTTP/1.1 202") {
        bail!("the server answered {}", text.lines().next().unwrap_or_default());
    }
    let length = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .context("the answer has no length")?;
    Ok(Some(head + 4 + length))
}
