//! The project's own chores, run by the Makefile: `cargo run -p xtask -- test`.

mod docker;
mod schemathesis;
mod stage;
mod test;
mod tidy;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let chore = std::env::args().nth(1).unwrap_or_default();
    match chore.as_str() {
        "test" => test::run(),
        "docker" => docker::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "tidy" => tidy::check(),
        "schemathesis" => schemathesis::run(),
        other => bail!("unknown chore {other:?}; there are: test, docker, tidy, schemathesis"),
    }
}
