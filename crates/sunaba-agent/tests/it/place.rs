//! Where the agents' programs have their home and their temporary files: never among the developer's.

use std::path::PathBuf;
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
