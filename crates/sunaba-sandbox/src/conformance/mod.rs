//! The suite that every provider passes.
//!
//! A provider joins with an `async fn` that makes a fresh [`World`] and one line,
//! which becomes one test a case:
//!
//! ```ignore
//! async fn fresh() -> impl sunaba_sandbox::conformance::World { … }
//! sunaba_sandbox::conformance!(crate::fresh);
//! ```
//!
//! Cases speak only of what the port promises, and ask a provider what it enforces before
//! they try it. They panic where a promise is broken.

#![expect(clippy::unwrap_used, reason = "a case that cannot go on says so by panicking")]

pub mod ending;
pub mod execs;
pub mod files;
pub mod life;
pub mod limits;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sunaba_types::SandboxId;
use sunaba_types::shim::{Exit, Layer, Limits};
use tokio::time::{Instant, sleep, timeout};

use crate::{CreateRequest, ExecRequest, ExecResult, Provider, StartRequest, Status};

/// Longest that anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A provider with nothing in it yet.
pub trait World: Debug + Send + Sync {
    /// The provider.
    fn provider(&self) -> Arc<dyn Provider>;

    /// Another one over the same state, as a server that was started anew makes it.
    fn fresh_provider(&self) -> Arc<dyn Provider>;

    /// A tree to lay under a directory inside, holding a file `from-below` with the text `below`; none where the
    /// provider takes no layers.
    fn layer(&self, target: &str) -> Option<Layer>;
}

/// Makes the tree of [`World::layer`] in a directory of the world's.
pub fn make_layer(dir: &Path, target: &str) -> Layer {
    let path = dir.join("layer");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("from-below"), "below\n").unwrap();
    for (path, mode) in [(path.clone(), 0o777), (path.join("from-below"), 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    Layer { source: path.to_str().unwrap().to_owned(), target: target.to_owned() }
}

/// Expands to one test a case; takes the path of an `async fn() -> impl World`.
#[macro_export]
macro_rules! conformance {
    ($make:path) => {
        $crate::conformance! { @cases always $make }
    };
    // Where there may be no world: an `async fn() -> Option<impl World>` that says what is left out.
    (maybe $make:path) => {
        $crate::conformance! { @cases maybe $make }
    };
    (@cases $how:ident $make:path) => {
        $crate::conformance! { @each $how $make;
            life:
                creates_once, is_found_by_the_next_server, starts_once, says_what_is_unknown,
                streams_output_by_offset, passes_the_environment_and_only_that, is_adopted_by_the_next_server,
                deletes_for_good, keeps_sandboxes_apart, lays_layers_under;
            ending:
                tells_a_code_from_a_signal, tells_a_kill_from_an_end, lets_the_command_end_by_itself,
                does_not_start_again, waits_for_one_that_is_over;
            execs:
                runs_one_more_process, feeds_its_input, kills_it_when_its_time_is_over, cuts_its_output,
                needs_a_running_sandbox, runs_many_at_once;
            files:
                writes_and_reads, reads_no_more_than_asked, follows_no_link_out, says_what_is_wrong;
            limits:
                says_what_it_enforces, measures_what_is_used, keeps_memory, tells_want_of_memory,
                keeps_processes, keeps_processor_time, keeps_disk, refuses_the_impossible;
        }
    };
    (@run always $make:path, $module:ident, $case:ident) => {
        $crate::conformance::$module::$case(&$make().await).await;
    };
    (@run maybe $make:path, $module:ident, $case:ident) => {
        if let Some(world) = $make().await {
            $crate::conformance::$module::$case(&world).await;
        }
    };
    (@each $how:ident $make:path; $($module:ident: $($case:ident),+;)+) => {
        $(mod $module {
            $(#[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance! { @run $how $make, $module, $case }
            })+
        })+
    };
}

/// A request that runs a shell script.
pub fn shell(script: &str) -> StartRequest {
    StartRequest { command: words(&["/bin/sh", "-c", script]), ..StartRequest::default() }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

async fn create(provider: &dyn Provider, limits: Limits) -> SandboxId {
    let id = SandboxId::generate();
    provider.create(&id, &CreateRequest { limits, image: None }).await.unwrap();
    id
}

async fn start(provider: &dyn Provider, limits: Limits, script: &str) -> SandboxId {
    let id = create(provider, limits).await;
    provider.start(&id, shell(script)).await.unwrap();
    id
}

async fn end_of(provider: &dyn Provider, id: &SandboxId) -> Exit {
    timeout(PATIENCE, provider.wait(id)).await.expect("it ends").unwrap()
}

/// Runs a script to its end; how it ended and what it said.
async fn run(provider: &dyn Provider, limits: Limits, script: &str) -> (Exit, String) {
    let id = start(provider, limits, script).await;
    let exit = end_of(provider, &id).await;
    let said = said(provider, &id).await;
    provider.delete(&id).await.unwrap();
    (exit, said)
}

async fn said(provider: &dyn Provider, id: &SandboxId) -> String {
    String::from_utf8_lossy(&provider.output(id, 0, 1 << 20).await.unwrap()).into_owned()
}

/// Waits until the sandbox has said something.
async fn hear(provider: &dyn Provider, id: &SandboxId, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !said(provider, id).await.contains(text) {
        let status = provider.status(id).await.unwrap();
        assert!(Instant::now() < deadline, "waited in vain for {text:?}: {status:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn exec(script: &str) -> ExecRequest {
    ExecRequest {
        command: words(&["/bin/sh", "-c", script]),
        env: BTreeMap::new(),
        input: Vec::new(),
        timeout: Duration::from_secs(30),
        output_max: 64 * 1024,
    }
}

async fn exec_in(provider: &dyn Provider, id: &SandboxId, script: &str) -> ExecResult {
    timeout(PATIENCE, provider.exec(id, exec(script))).await.expect("it ends").unwrap()
}

/// A running sandbox that does nothing.
async fn idle(provider: &dyn Provider) -> SandboxId {
    start(provider, Limits::default(), "sleep 600").await
}

fn is_running(status: &Status) -> bool {
    matches!(status, Status::Running)
}
