//! `mintage openapi`: the document that is committed as `openapi.json`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::failure::Failure;
use crate::http::openapi_document;

pub(crate) fn run() -> Result<ExitCode, Failure> {
    io::stdout().write_all(openapi_document().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
