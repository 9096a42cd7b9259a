//! Making codes without a server: key files, output files, and rendering on all cores.

pub(crate) mod files;
pub(crate) mod interrupts;
pub(crate) mod key_file;
pub(crate) mod output;
pub(crate) mod place;
pub(crate) mod produce;
pub(crate) mod progress;
pub(crate) mod rows;
