//! The container daemon of the test run, where there is one; and a note of what is left out where there is none.

use std::io::Write as _;
use std::path::PathBuf;

/// A daemon that was started for the tests (`cargo run -p xtask -- docker cargo test …`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestDaemon {
    /// Its address.
    pub host: String,
    /// An image with a shell, git and Python in it.
    pub image: String,
}

impl TestDaemon {
    /// The daemon, or a note that `what` was left out.
    pub fn find(what: &str) -> Option<Self> {
        match (std::env::var("SUNABA_TEST_DOCKER_HOST"), std::env::var("SUNABA_TEST_DOCKER_IMAGE")) {
            (Ok(host), Ok(image)) => Some(Self { host, image }),
            _ => {
                left_out(what, "there is no container daemon (`make test` starts one as root)");
                None
            }
        }
    }
}

/// The worker program of this build: what `SUNABA_WORKER` names, or beside the tests' own directory.
pub fn worker_program() -> PathBuf {
    if let Some(program) = std::env::var_os("SUNABA_WORKER") {
        return PathBuf::from(program);
    }
    let test = std::env::current_exe().expect("a test knows its own program");
    let beside = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").join("sunaba-worker");
    assert!(beside.is_file(), "build {} first: cargo build --bin sunaba-worker", beside.display());
    beside
}

/// Says what a test left out and why; the summary of the whole run repeats it.
pub fn left_out(what: &str, why: &str) {
    let line = format!("{what}: {why}\n");
    let _ = write!(std::io::stderr(), "left out: {line}");
    if let Some(notes) = std::env::var_os("SUNABA_LEFT_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
        // One short write each, so lines of many tests do not mix.
        drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
    }
}
