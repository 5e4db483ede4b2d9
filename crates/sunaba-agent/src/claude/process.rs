//! How the CLI is started.

use super::command::{TakeUp, command, how_to_install};
use super::{ClaudeConfig, wire};
use crate::child::{Family, MARK, Process};
use crate::{ErrorClass, RunContext, RunError};

/// Starts it and says hello.
pub(super) fn start(config: &ClaudeConfig, ctx: &RunContext, take_up: &TakeUp) -> Result<Process, RunError> {
    let family = Family::new();
    let command = command(config, ctx, take_up, (MARK, &family.mark()));
    let process = Process::start(command, family).map_err(|error| cannot_start(config, &error))?;
    process.send(&wire::initialize())?;
    Ok(process)
}

fn cannot_start(config: &ClaudeConfig, error: &std::io::Error) -> RunError {
    let message = match error.kind() {
        std::io::ErrorKind::NotFound => how_to_install(&config.program),
        _ => format!("cannot start {}: {error}", config.program.display()),
    };
    RunError { class: ErrorClass::Configuration, message }
}
