//! Rendering many codes on all cores, written in order of their serials, in bounded memory.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use idgen::random::RandomFormat;
use idgen::sequence::SequenceOn;
use idgen::spec::SERIAL_MAX;

use super::rows::Rows;

/// Serials in a chunk: large enough that handing one over costs nothing, small enough that a
/// dozen of them in memory do not matter.
const CHUNK_SERIALS: u64 = 1 << 15;

/// Finished chunks that may wait for the writer, per thread.
const CHUNKS_AHEAD: usize = 2;

/// A type that renders serials.
pub(crate) enum Source {
    Random(Box<RandomFormat>),
    Sequence(SequenceOn),
}

impl Source {
    fn for_each(&self, range: Range<u64>, each: impl FnMut(u64, &[u8])) {
        match self {
            Self::Random(format) => format.for_each(range, each),
            Self::Sequence(format) => format.for_each(range, each),
        }
    }

    /// Serials end before this.
    pub(crate) fn serials_end(&self) -> u64 {
        match self {
            Self::Random(format) => format.serials(),
            Self::Sequence(_) => SERIAL_MAX,
        }
    }
}

/// An order for codes.
pub(crate) struct Order {
    pub(crate) source: Source,
    pub(crate) rows: Rows,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) threads: usize,
}

/// What became of an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Produced {
    /// Codes written. Fewer than ordered only if the serials ran out.
    pub(crate) count: u64,
    /// Where another run has to begin.
    pub(crate) next_serial: u64,
}

/// Rows of consecutive serials.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    count: u64,
    last_serial: u64,
}

/// A thread that renders every n-th chunk, and the buffers that go back to it.
struct Renderer {
    finished: Receiver<Chunk>,
    used: SyncSender<Chunk>,
}

impl Order {
    /// Writes the codes in order. `progress` is told how many were added.
    pub(crate) fn produce(
        &self,
        output: &mut impl Write,
        progress: impl Fn(u64),
    ) -> io::Result<Produced> {
        thread::scope(|scope| {
            let renderers: Vec<Renderer> = (0..self.threads)
                .map(|index| {
                    let (finish, finished) = sync_channel(CHUNKS_AHEAD);
                    let (used, reuse) = sync_channel(CHUNKS_AHEAD + 2);
                    scope.spawn(move || self.render_every_nth(index, &finish, &reuse));
                    Renderer { finished, used }
                })
                .collect();
            // Returning drops the receivers, and that ends the threads.
            self.write_in_order(&renderers, output, progress)
        })
    }

    fn write_in_order(
        &self,
        renderers: &[Renderer],
        output: &mut impl Write,
        progress: impl Fn(u64),
    ) -> io::Result<Produced> {
        let mut done = Produced { count: 0, next_serial: self.first };
        for (index, renderer) in renderers.iter().cycle().enumerate() {
            let Ok(mut chunk) = renderer.finished.recv() else { break };
            let wanted = self.count - done.count;
            if chunk.count > wanted {
                self.render(self.chunk_range(index as u64), wanted, &mut chunk);
            }
            output.write_all(&chunk.bytes)?;
            progress(chunk.count);
            done.count += chunk.count;
            if chunk.count > 0 {
                done.next_serial = chunk.last_serial + 1;
            }
            if done.count == self.count {
                break;
            }
            // Full only if the thread has ended, and then it needs no buffer.
            let _ = renderer.used.try_send(chunk);
        }
        Ok(done)
    }

    fn render_every_nth(&self, index: usize, finish: &SyncSender<Chunk>, reuse: &Receiver<Chunk>) {
        let mut chunk_index = index as u64;
        loop {
            let range = self.chunk_range(chunk_index);
            if range.is_empty() {
                return;
            }
            let mut chunk = reuse.try_recv().unwrap_or_default();
            self.render(range, u64::MAX, &mut chunk);
            if finish.send(chunk).is_err() {
                return;
            }
            chunk_index += self.threads as u64;
        }
    }

    /// Fills a chunk with the rows of a range, at most `limit` of them.
    fn render(&self, range: Range<u64>, limit: u64, chunk: &mut Chunk) {
        chunk.bytes.clear();
        chunk.count = 0;
        self.source.for_each(range, |serial, code| {
            if chunk.count < limit {
                self.rows.push(serial, code, &mut chunk.bytes);
                chunk.count += 1;
                chunk.last_serial = serial;
            }
        });
    }

    fn chunk_range(&self, index: u64) -> Range<u64> {
        let first = self.first.saturating_add(index.saturating_mul(CHUNK_SERIALS));
        first..first.saturating_add(CHUNK_SERIALS).min(self.source.serials_end())
    }
}
