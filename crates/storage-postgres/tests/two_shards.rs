//! The suite that every store passes, on a catalogue and another shard.

#[path = "support/fixture.rs"]
mod fixture;
mod support;

storage_tests::conformance!(crate::fixture::Cluster<2>);
