//! What is OpenHands' own: it is a library, which does not speak the protocol. A program in Python beside this file
//! does and drives it; it is laid into the agent's directory at every start, so that it is always the one of this
//! version.

use std::io::Result;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::command::{Env, added};
use crate::{PermissionMode, RunContext};

/// Where the program is in the agent's directory, and where in that its package.
const PROGRAM: &str = "acp";
const PACKAGE: &str = "sunaba_openhands";
/// Its files, with what runs them as the first.
const FILES: [(&str, &str); 10] = [
    ("__main__.py", include_str!("__main__.py")),
    ("agent.py", include_str!("agent.py")),
    ("screen.py", include_str!("screen.py")),
    ("serve.py", include_str!("serve.py")),
    ("session.py", include_str!("session.py")),
    ("settings.py", include_str!("settings.py")),
    ("shell.py", include_str!("shell.py")),
    ("tell.py", include_str!("tell.py")),
    ("terminal.py", include_str!("terminal.py")),
    ("wire.py", include_str!("wire.py")),
];

/// What Python is to run.
pub(super) fn program(dir: &Path) -> PathBuf {
    dir.join(PROGRAM)
}

/// Everything that it has to know, under one name, which it keeps from its commands.
pub(super) fn env(ctx: &RunContext, dir: &Path) -> Env {
    let mode = match ctx.permission_mode {
        PermissionMode::Bypass => "bypass",
        PermissionMode::AcceptEdits | PermissionMode::Ask => "ask",
    };
    let settings = json!({
        "model": ctx.model, "base_url": ctx.base_url, "key": ctx.api_key.expose(), "dir": dir, "mode": mode,
        "system_prompt": ctx.system_prompt, "append": added(ctx),
    });
    vec![("SUNABA_OPENHANDS", settings.to_string())]
}

/// Lays the program.
pub(super) fn configure(dir: &Path) -> Result<()> {
    let package = program(dir).join(PACKAGE);
    std::fs::create_dir_all(&package)?;
    for (name, text) in FILES {
        let place = if name == "__main__.py" { program(dir) } else { package.clone() };
        std::fs::write(place.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_program_is_laid() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/acp/openhands");
        let names = std::fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "py"));
        names.sort();
        assert_eq!(names, FILES.map(|(name, _)| name));
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path()).unwrap();
        configure(dir.path()).unwrap();
        assert!(program(dir.path()).join("__main__.py").is_file());
        assert!(program(dir.path()).join("sunaba_openhands/serve.py").is_file());
    }

    #[test]
    fn what_a_terminal_shows_is_taken_apart() {
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path()).unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/acp/openhands/tests/screen.py");
        let ran = std::process::Command::new("python3")
            .arg("-B")
            .arg(tests)
            .env("PYTHONPATH", program(dir.path()))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}
