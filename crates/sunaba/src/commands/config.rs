//! `sunaba config`: every effective value with its origin.

use std::process::ExitCode;

use super::Context;
use crate::args::ConfigArgs;
use crate::failure::Outcome;
use crate::{config, output};

/// Shows the configuration that `serve` would use.
pub(crate) fn config(context: &Context, args: &ConfigArgs) -> Outcome {
    if args.reference {
        output::out(&config::reference());
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = config::load(&context.settings(&args.settings))?;
    if context.json {
        output::json(&config::to_json(&loaded));
    } else {
        output::out(&config::to_text(&loaded));
    }
    Ok(ExitCode::SUCCESS)
}
