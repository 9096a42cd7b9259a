//! The suite that every store passes, on one database.

#[path = "support/fixture.rs"]
mod fixture;
mod support;

storage_tests::conformance!(crate::fixture::Cluster<1>);
