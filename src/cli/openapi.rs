use clap::Args;

use super::outcome::{CliError, Exit};
use super::output;

/// Print the API's OpenAPI 3.1 document
#[derive(Debug, Args)]
#[command(
    long_about = "Print the API's OpenAPI 3.1 document, as /openapi.json serves it.",
    after_help = "Example:\n  gavel openapi > openapi.json"
)]
pub(super) struct Openapi {}

impl Openapi {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        output::line(crate::app::openapi_json().trim_end())?;
        Ok(Exit::Done)
    }
}
