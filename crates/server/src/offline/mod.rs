//! Making codes without a server: key files, output files, and rendering on all cores.

pub(crate) mod key_file;
pub(crate) mod output;
pub(crate) mod produce;
pub(crate) mod rows;
