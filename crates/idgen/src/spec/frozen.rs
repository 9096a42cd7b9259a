//! What must not change about an ID type once it has issued IDs.

use super::{IdType, Kind, RandomSpec, SequenceSpec};

impl IdType {
    /// The fields in which `new` differs and may not, once IDs are out there: with them changed,
    /// old IDs could no longer be read, or would be issued again.
    ///
    /// The rest only concerns IDs to come: how they are grouped, how densely they may be issued,
    /// in which transaction a number is taken.
    pub fn frozen_changes(&self, new: &Self) -> Vec<&'static str> {
        let mut changes = Changes::default();
        changes.note("tenant", self.tenant != new.tenant);
        changes.note("name", self.name != new.name);
        match (&self.kind, &new.kind) {
            (Kind::Sequence(old), Kind::Sequence(new)) => changes.note_sequence(old, new),
            (Kind::Random(old), Kind::Random(new)) => changes.note_random(old, new),
            (Kind::Snowflake(old), Kind::Snowflake(new)) => {
                changes.note("snowflake.epoch", old.epoch != new.epoch);
            }
            _ => changes.note("kind", true),
        }
        changes.0
    }
}

#[derive(Default)]
struct Changes(Vec<&'static str>);

impl Changes {
    fn note(&mut self, field: &'static str, changed: bool) {
        if changed {
            self.0.push(field);
        }
    }

    fn note_sequence(&mut self, old: &SequenceSpec, new: &SequenceSpec) {
        self.note("sequence.start", old.start != new.start);
        self.note("sequence.template", old.template != new.template);
        self.note("sequence.reset", old.reset != new.reset);
    }

    fn note_random(&mut self, old: &RandomSpec, new: &RandomSpec) {
        self.note("random.alphabet", old.alphabet != new.alphabet);
        self.note("random.length", old.length != new.length);
        self.note("random.check", old.check != new.check);
        // A profile and its settings written out are the same filters.
        self.note("random.filters", old.filters.settings() != new.filters.settings());
    }
}
