//! The project's own chores, run by the Makefile: `cargo run -p xtask -- test`.

mod docker;
/// The testkit's own files, without the server that the rest of the kit is built with.
#[path = "../../sunaba-testkit/src/keeper.rs"]
mod keeper;
mod on_postgres;
#[path = "../../sunaba-testkit/src/postgres.rs"]
#[expect(unreachable_pub, dead_code, reason = "the file is public in the kit; here it is only started")]
mod postgres;
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
