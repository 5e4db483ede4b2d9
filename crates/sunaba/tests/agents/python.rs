//! A Python with an agent's package, laid where sandboxes see it: those of a developer's home they do not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The interpreter of the environment that `scripts/setup all` makes.
pub(crate) const PROGRAM: &str = "openhands-agent-server-1.58.0/bin/python";

/// Lays a whole Python: the one that the environment was made of, with the environment's packages.
pub(crate) fn lay(program: &Path, toolchain: &Path) -> anyhow::Result<()> {
    let environment = program.ancestors().nth(2).context("an environment has a bin")?;
    let prefix = prefix_of(environment)?;
    let lib = stdlib(&prefix)?;
    let name = lib.file_name().context("a name")?;
    std::fs::create_dir_all(toolchain.join("lib"))?;
    std::fs::create_dir_all(toolchain.join("bin"))?;
    copy(&lib, &toolchain.join("lib"))?;
    // The environment's packages are in the place of the interpreter's own: nothing is ever written over a link.
    std::fs::remove_dir_all(toolchain.join("lib").join(name).join("site-packages"))?;
    copy(&environment.join("lib").join(name).join("site-packages"), &toolchain.join("lib").join(name))?;
    let real = prefix.join("bin").join(name);
    // Under the name that it is looked for by among processes.
    std::fs::create_dir_all(toolchain.join("real"))?;
    let laid = toolchain.join("real/python3");
    std::fs::copy(&real, &laid).with_context(|| format!("copy {}", real.display()))?;
    for entry in std::fs::read_dir(prefix.join("lib"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("libpython") {
            std::fs::copy(entry.path(), toolchain.join("lib").join(entry.file_name()))?;
        }
    }
    // One that is built with a library of its own looks for it where it was built.
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
        toolchain.join("lib").display(),
        laid.display()
    );
    let start = toolchain.join("bin/python3");
    std::fs::write(&start, script)?;
    std::fs::set_permissions(&start, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Where the interpreter was installed that an environment was made of.
fn prefix_of(environment: &Path) -> anyhow::Result<PathBuf> {
    let config = std::fs::read_to_string(environment.join("pyvenv.cfg"))?;
    let home = config.lines().find_map(|line| line.strip_prefix("home = ")).context("home in pyvenv.cfg")?;
    Ok(Path::new(home).parent().context("an interpreter is in a bin")?.to_owned())
}

fn stdlib(prefix: &Path) -> anyhow::Result<PathBuf> {
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
    let mut all = std::fs::read_dir(prefix.join("lib"))?.filter_map(|entry| Some(entry.ok()?.path()));
    all.find(|path| named(path) && path.join("os.py").is_file()).context("Python's own modules")
}

/// Into a directory. They are large; links are as good where there can be some.
fn copy(from: &Path, into: &Path) -> anyhow::Result<()> {
    let copied = |how: &str| Command::new("cp").args(["-a", how, "--"]).arg(from).arg(into).output();
    let linked = copied("--link")?;
    let done = if linked.status.success() { linked } else { copied("--remove-destination")? };
    ensure!(done.status.success(), "cp: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
