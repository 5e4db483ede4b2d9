//! The worker: drives the agent and reports.
/// Runs.
pub fn run() -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("not yet")
}
