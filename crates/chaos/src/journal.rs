//! What was broken, and when.

use std::fmt::Write as _;
use std::time::Instant;

/// The time since the run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch(Instant);

impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// One fault, from its beginning to its end.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// What it is counted as.
    pub(crate) kind: &'static str,
    /// What was hit, in words.
    pub(crate) what: String,
    /// Whether it is about the Redis server and nothing else.
    pub(crate) redis: bool,
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: Option<u64>,
}

/// All faults in the order of their beginning.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) watch: Watch,
    pub(crate) entries: Vec<Entry>,
}

/// How long before and after its time a fault is worth mentioning.
const AROUND_MS: u64 = 3000;

impl Journal {
    pub(crate) fn new() -> Self {
        Self { watch: Watch::start(), entries: Vec::new() }
    }

    /// A line for people who watch.
    pub(crate) fn say(&self, text: &str) {
        let ms = self.watch.ms();
        eprintln!("{:>4}.{:03} {text}", ms / 1000, ms % 1000);
    }

    /// Notes a beginning, and returns its place.
    pub(crate) fn begin(&mut self, kind: &'static str, what: String, redis: bool) -> usize {
        self.say(&what);
        let began_ms = self.watch.ms();
        self.entries.push(Entry { kind, what, redis, began_ms, ended_ms: None });
        self.entries.len() - 1
    }

    pub(crate) fn end(&mut self, place: usize) {
        let ms = self.watch.ms();
        let entry = &mut self.entries[place];
        entry.ended_ms = Some(ms);
        let text = format!("  over: {}", entry.what);
        self.say(&text);
    }

    /// The faults around a time, in words.
    pub(crate) fn around(&self, at_ms: u64) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let ended_ms = entry.ended_ms.unwrap_or(u64::MAX);
            if entry.began_ms <= at_ms + AROUND_MS && ended_ms.saturating_add(AROUND_MS) >= at_ms {
                let gap = if text.is_empty() { "" } else { "; " };
                let _ = write!(text, "{gap}{} {}-{ended_ms} ms", entry.what, entry.began_ms);
            }
        }
        if text.is_empty() { "no faults".to_owned() } else { text }
    }

    /// Whether Redis was broken at a time, and nothing else shortly before.
    pub(crate) fn only_redis(&self, at_ms: u64) -> bool {
        let hit = |entry: &Entry, after_ms: u64| {
            let ended_ms = entry.ended_ms.unwrap_or(u64::MAX).saturating_add(after_ms);
            (entry.began_ms..=ended_ms).contains(&at_ms)
        };
        self.entries.iter().any(|entry| entry.redis && hit(entry, 0))
            && !self.entries.iter().any(|entry| !entry.redis && hit(entry, AROUND_MS))
    }

    /// How often each kind of fault occurred.
    pub(crate) fn by_kind(&self) -> Vec<(&'static str, usize)> {
        let mut kinds: Vec<&'static str> = self.entries.iter().map(|entry| entry.kind).collect();
        kinds.sort_unstable();
        kinds.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
    }
}
