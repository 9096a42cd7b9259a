#![doc = include_str!("../README.md")]

pub mod alphabet;
pub mod capacity;
pub mod check;
pub mod error;
pub mod ff1;
pub mod filters;
pub mod format;
pub mod key;
pub mod random;
pub mod repair;
pub mod sequence;
pub mod shape;
pub mod snowflake;
pub mod spec;
pub mod template;
