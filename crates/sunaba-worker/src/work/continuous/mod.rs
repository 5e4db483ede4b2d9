//! Continuous mode: the agent works in iterations until its word that it is done holds, or a limit is reached.
//!
//! ```text
//!   task ──► iteration ──► says the signal? ──no──────────────┐
//!               ▲                 │ yes, often enough         │
//!               │            evidence is looked for           │
//!               │                 │                           │
//!               └── what is missing ◄──no── all there? ──yes──► completed
//! ```
//!
//! Evidence is what is found here: what git says of the workspace, whether the remote really holds the commit, how the
//! check really ended. What was not looked at is not there: a branch that was never pushed is not pushed, a check that
//! did not run did not pass. The agent's words decide only when to look.

mod check;
mod ended;
mod evidence;
mod progress;
mod prompts;
mod run;
mod settings;

pub(super) use ended::Ended;
pub(super) use run::Iterations;
pub use settings::Continuous;
