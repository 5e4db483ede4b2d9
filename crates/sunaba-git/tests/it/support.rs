//! A person's repository, made with plain git.

use std::path::{Path, PathBuf};
use std::process::Command;

use sunaba_git::Mirror;
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) repo: PathBuf,
}

impl World {
    /// A repository with one commit on `main`, checked out.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        let world = Self { dir, repo };
        world.commit("README.md", "hello\n");
        world
    }

    pub(crate) fn commit(&self, file: &str, text: &str) -> String {
        commit(&self.repo, file, text)
    }

    pub(crate) fn source(&self) -> String {
        self.repo.display().to_string()
    }

    pub(crate) async fn mirror(&self) -> Mirror {
        let mirror = Mirror::ensure(self.dir.path().join("git/p.git"), &self.source()).await.unwrap();
        mirror.fetch().await.unwrap();
        mirror
    }
}

pub(crate) fn commit(repo: &Path, file: &str, text: &str) -> String {
    std::fs::write(repo.join(file), text).unwrap();
    git(repo, &["add", "."]);
    git(repo, &["commit", "-q", "-m", &format!("change {file}")]);
    git(repo, &["rev-parse", "HEAD"])
}

/// Plain git, as a person would run it.
pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "safe.directory=*"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
