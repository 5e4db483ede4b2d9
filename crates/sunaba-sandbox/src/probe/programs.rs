//! The programs that sandboxes are made with.

use sunaba_types::Finding;
use tokio::process::Command;

use super::{Host, missing, ok, run, weaker};

/// The first version with everything that is asked of it.
const BUBBLEWRAP_WANTED: (u32, u32) = (0, 8);
/// The first version that takes the environment's configuration (`GIT_CONFIG_COUNT`).
const GIT_WANTED: (u32, u32) = (2, 31);

pub(super) async fn bubblewrap(host: &Host) -> Finding {
    let remedy = "install the package `bubblewrap`, 0.8 or newer";
    version(host, "bubblewrap", "bwrap", BUBBLEWRAP_WANTED, remedy).await
}

pub(super) async fn git(host: &Host) -> Finding {
    version(host, "git", "git", GIT_WANTED, "install the package `git`, 2.31 or newer").await
}

async fn version(host: &Host, name: &str, program: &str, wanted: (u32, u32), remedy: &str) -> Finding {
    let Some(path) = host.program(program) else {
        return missing(name, format!("{program} was not found"), remedy);
    };
    let mut command = Command::new(&path);
    command.arg("--version").stdin(std::process::Stdio::null());
    let said = match run(command).await {
        Ok(said) => said,
        Err(error) => return missing(name, format!("{} does not run: {error}", path.display()), remedy),
    };
    let said = said.lines().next().unwrap_or_default();
    let detail = format!("{said} at {}", path.display());
    match parse(said) {
        Some(version) if version < wanted => weaker(name, detail, remedy),
        Some(_) => ok(name, detail),
        None => weaker(name, format!("{detail}: no version in it"), remedy),
    }
}

fn parse(said: &str) -> Option<(u32, u32)> {
    let number = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions() {
        assert_eq!(parse("bubblewrap 0.8.0"), Some((0, 8)));
        assert_eq!(parse("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(parse("nothing"), None);
    }
}
