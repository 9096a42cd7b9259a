//! What a step has taken, in case that it never ends.

use super::counter::Counter;
use super::numbers::DocumentNumbers;
use crate::LiveType;
use crate::outbox::{Freight, LiveReceiver, Outbox};

/// Numbers, and room at a sink. Where a step panics, they are as those of a step that failed: its numbers
/// may or may not be on record.
pub(super) struct Taken<'a> {
    pub(super) numbers: &'a DocumentNumbers,
    pub(super) live: &'a LiveType,
    pub(super) counter: &'a Counter,
    pub(super) ids: &'a [(u64, String)],
    /// The room, and at which sink.
    pub(super) room: Option<(&'a LiveReceiver, Freight)>,
}

impl Taken<'_> {
    /// The step has come to an end, and whoever made it takes care of all this.
    pub(super) fn ended(self) {
        std::mem::forget(self);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.numbers.doubt(self.live.stored().id, self.counter.period(), self.ids);
        if let Some((sink, freight)) = self.room {
            Outbox::leave(sink, freight);
        }
    }
}
