//! A test in a process of its own, as a worker has one agent and no other.
//!
//! What an agent left without its mark is known by having become a child of this process, so that of two agents in one
//! process the one that ends first ends what the other left.

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::time::timeout;

const ALONE: &str = "SUNABA_TEST_ALONE";
/// Beyond every wait that such a test has itself.
const DEADLINE: Duration = Duration::from_secs(180);

/// Runs the test of this name, which is the one that calls this, as the only one of another process.
pub(crate) fn alone(name: &str, test: impl Future<Output = ()>) {
    let runtime = Runtime::new().unwrap();
    if std::env::var_os(ALONE).is_some() {
        runtime.block_on(test);
    } else {
        runtime.block_on(in_another_process(name));
    }
}

async fn in_another_process(name: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(ALONE, "1").stdin(Stdio::null()).kill_on_drop(true);
    let ended = timeout(DEADLINE, command.output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{name} did not end within {DEADLINE:?}")).unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}, alone: {}\n{told}\n{errors}", output.status);
    assert!(told.contains("test result: ok. 1 passed"), "there is no test called {name}:\n{told}");
}
