//! Where the agents' programs have their home and their temporary files: never among the developer's. And programs in
//! their place.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// The place, and who removes it.
static PLACE: LazyLock<(PathBuf, Child)> = LazyLock::new(|| {
    let place = TempDir::with_prefix("sunaba-agent-").unwrap().keep();
    for inside in ["home", "tmp"] {
        std::fs::create_dir(place.join(inside)).unwrap();
    }
    // A static is never dropped, and a test can be killed: this one reads until we are gone.
    let remover = Command::new("sh")
        .args(["-c", "cat >/dev/null; rm -rf -- \"$1\"", "sh"])
        .arg(&place)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (place, remover)
});

/// What a program's environment is to hold, so that it leaves nothing behind when the tests are over.
pub(crate) fn own_place() -> Vec<(String, String)> {
    let inside = |name: &str| PLACE.0.join(name).display().to_string();
    vec![("HOME".to_owned(), inside("home")), ("TMPDIR".to_owned(), inside("tmp"))]
}

/// A program that the shell reads. It is written by another process: one that a test beside this one starts in the
/// meantime would hold our file open for writing, and then it cannot be started.
pub(crate) fn program(path: &Path, lines: &str) {
    let mut writer = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{lines}").as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}
