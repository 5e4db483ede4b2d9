//! Log lines: to standard error, for people or for programs.

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};
use crate::failure::{Failure, Outcome};

/// Installs the one subscriber of the process.
pub(super) fn install(config: &Config) -> Outcome<()> {
    let filter = EnvFilter::try_new(&config.log.level)
        .map_err(|error| Failure::usage(format!("log.level: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let installed = match config.log.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Pretty => {
            use std::io::IsTerminal;
            builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).compact().try_init()
        }
    };
    installed.map_err(|error| Failure::other(format!("cannot log: {error}")))
}
