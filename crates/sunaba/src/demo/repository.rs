//! The made-up repository: a tiny shell program whose tests want a flag that it does not have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::failure::{Failure, Outcome};

const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("files/README.md")),
    ("greet.sh", include_str!("files/greet.sh")),
    ("test.sh", include_str!("files/test.sh")),
];
/// How long one git command may take.
const GIT_WITHIN: Duration = Duration::from_secs(30);

/// Makes the repository; one that is there from an earlier time is used again.
pub(crate) async fn make(repo: &Path) -> Outcome<PathBuf> {
    let repo = repo.to_owned();
    if repo.join(".git").exists() {
        return Ok(repo);
    }
    std::fs::create_dir_all(&repo)?;
    for (name, content) in FILES {
        std::fs::write(repo.join(name), content)?;
    }
    git(&repo, &["init", "--quiet", "--initial-branch=main"]).await?;
    git(&repo, &["add", "--all"]).await?;
    git(&repo, &["commit", "--quiet", "--message", "Greet people"]).await?;
    Ok(repo)
}

async fn git(repo: &Path, arguments: &[&str]) -> Outcome<()> {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=Sunaba demo", "-c", "user.email=demo@sunaba.invalid"])
        .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .current_dir(repo)
        .env("GIT_TERMINAL_PROMPT", "0")
        .kill_on_drop(true);
    let ran = tokio::time::timeout(GIT_WITHIN, command.output())
        .await
        .map_err(|_| Failure::other("git does not come to an end"))?;
    let ran = ran.map_err(|error| Failure::other(format!("git cannot be run: {error}; install git")))?;
    if ran.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    Err(Failure::other(format!("git {}: {words}", arguments.first().unwrap_or(&""))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_made_once_and_its_tests_want_the_flag() {
        let dir = tempfile::tempdir().unwrap();
        let repo = make(&dir.path().join("greeter")).await.unwrap();
        assert_eq!(make(&dir.path().join("greeter")).await.unwrap(), repo, "the second time it is found");
        let tests = std::process::Command::new("sh").arg("test.sh").current_dir(&repo).output().unwrap();
        let told = String::from_utf8_lossy(&tests.stdout).into_owned();
        assert!(!tests.status.success());
        assert_eq!(told.matches("ok  ").count(), 2, "{told}");
        assert_eq!(told.matches("FAILED").count(), 2, "{told}");
    }
}
