//! Which command prepares a clone, and under which key its result is kept.

use serde_json::json;
use sunaba_git::TreeFile;
use sunaba_types::BlobHash;

/// Files that pin what a setup command installs, wherever they lie in the repository.
const LOCK_FILES: &[&str] = &[
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "requirements.txt",
    "requirements-dev.txt",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "Cargo.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
];

/// A lock file at the top, the program it needs and the command it stands for.
struct Guess {
    lock_file: &'static str,
    program: &'static str,
    command: &'static str,
}

/// In the order in which they are looked for; of the first three only one is taken.
const GUESSES: &[Guess] = &[
    Guess { lock_file: "pnpm-lock.yaml", program: "pnpm", command: "pnpm install --frozen-lockfile" },
    Guess { lock_file: "yarn.lock", program: "yarn", command: "yarn install --frozen-lockfile" },
    Guess { lock_file: "package-lock.json", program: "npm", command: "npm ci --no-audit --no-fund" },
    Guess { lock_file: "uv.lock", program: "uv", command: "uv sync --frozen" },
    Guess { lock_file: "poetry.lock", program: "poetry", command: "poetry install --no-interaction" },
    Guess {
        lock_file: "requirements.txt",
        program: "python3",
        command: "python3 -m venv --system-site-packages .venv && .venv/bin/python -m pip install \
                  --disable-pip-version-check -r requirements.txt",
    },
    Guess { lock_file: "Cargo.lock", program: "cargo", command: "cargo fetch --locked" },
    Guess { lock_file: "go.sum", program: "go", command: "go mod download" },
    Guess {
        lock_file: "Gemfile.lock",
        program: "bundle",
        command: "BUNDLE_PATH=vendor/bundle bundle install",
    },
    Guess {
        lock_file: "composer.lock",
        program: "composer",
        command: "composer install --no-interaction --no-progress",
    },
];

/// The command's own way to say that its program is not there.
pub(super) const PROGRAM_MISSING: i32 = 127;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// For people.
    pub(crate) command: String,
    /// Whether nobody asked for it: then a program that is missing is no failure.
    pub(crate) guessed: bool,
    /// For the shell.
    pub(crate) script: String,
}

/// The command that was set, else the guessed one; none when there is nothing to run.
pub(crate) fn choose(set: Option<&str>, files: &[TreeFile]) -> Option<Plan> {
    match set {
        Some(command) if command.trim().is_empty() => None,
        Some(command) => Some(Plan {
            command: command.to_owned(),
            guessed: false,
            script: format!("cd /workspace && {{\n{command}\n}}"),
        }),
        None => guess(files),
    }
}

fn guess(files: &[TreeFile]) -> Option<Plan> {
    let at_top = |name: &str| files.iter().any(|file| file.ordinary && file.path == name);
    let is_node = |guess: &Guess| matches!(guess.program, "pnpm" | "yarn" | "npm");
    let is_python = |guess: &Guess| matches!(guess.program, "uv" | "poetry" | "python3");
    let (mut node, mut python) = (false, false);
    let mut chosen = Vec::new();
    for guess in GUESSES.iter().filter(|guess| at_top(guess.lock_file)) {
        let family = match guess {
            guess if is_node(guess) => &mut node,
            guess if is_python(guess) => &mut python,
            _ => &mut false,
        };
        if !std::mem::replace(family, true) {
            chosen.push(guess);
        }
    }
    if chosen.is_empty() {
        return None;
    }
    let command = chosen.iter().map(|guess| guess.command).collect::<Vec<_>>().join(" && ");
    // A program that is missing skips its part; when all are missing there is nothing to keep.
    let parts = chosen.iter().map(|Guess { program, command, .. }| {
        format!(
            "if command -v {program} >/dev/null 2>&1; then\n  ({command}) || exit\n  did=1\n\
             else\n  echo 'sunaba: {program} is not in the sandbox; left out: {command}'\nfi"
        )
    });
    let script = format!(
        "cd /workspace || exit\ndid=0\n{}\n[ $did = 1 ] || exit {PROGRAM_MISSING}",
        parts.collect::<Vec<_>>().join("\n")
    );
    Some(Plan { command, guessed: true, script })
}

/// What besides the command decides what comes of it.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    /// The commit's files.
    pub(crate) files: &'a [TreeFile],
    /// What makes the sandbox.
    pub(crate) provider: &'a str,
    /// The root file system or the image, if one is named.
    pub(crate) base: Option<&'a str>,
    /// Host paths that are shown inside.
    pub(crate) toolchains: &'a [String],
    /// The commit, where it is not one of the source's own: what an agent wrote must never be laid under
    /// another's sandbox.
    pub(crate) commit: Option<&'a str>,
}

/// The name of the result: the same for everything that must give the same.
pub(crate) fn key(plan: &Plan, ground: &Ground<'_>) -> String {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let locks: Vec<_> = ground
        .files
        .iter()
        .filter(|file| LOCK_FILES.contains(&name(&file.path).as_str()))
        .map(|file| json!([file.path, file.blob]))
        .collect();
    let all = json!({
        "version": 1,
        "script": plan.script,
        "locks": locks,
        "provider": ground.provider,
        "base": ground.base,
        "toolchains": ground.toolchains,
        "commit": ground.commit,
        "arch": std::env::consts::ARCH,
    });
    BlobHash::of(all.to_string().as_bytes()).as_str()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, blob: &str) -> TreeFile {
        TreeFile { path: path.into(), blob: blob.into(), ordinary: true }
    }

    fn ground<'a>(files: &'a [TreeFile]) -> Ground<'a> {
        Ground { files, provider: "local", base: None, toolchains: &[], commit: None }
    }

    #[test]
    fn what_is_set_wins_and_empty_means_nothing() {
        let files = [file("Cargo.lock", "1")];
        assert_eq!(choose(Some(" "), &files), None);
        let set = choose(Some("make deps"), &files).unwrap();
        assert!(!set.guessed && set.script.contains("make deps"));
        assert_eq!(choose(None, &[file("README.md", "1")]), None);
        assert_eq!(choose(None, &[file("sub/Cargo.lock", "1")]), None, "only at the top");
    }

    #[test]
    fn lock_files_are_guessed_once_a_language() {
        let files = [file("yarn.lock", "1"), file("package-lock.json", "2"), file("go.sum", "3")];
        let plan = choose(None, &files).unwrap();
        assert_eq!(plan.command, "yarn install --frozen-lockfile && go mod download");
        assert!(plan.guessed && plan.script.contains("command -v yarn"));
        let link = TreeFile { ordinary: false, ..file("go.sum", "3") };
        assert_eq!(choose(None, &[link]), None);
    }

    #[test]
    fn the_key_changes_with_what_matters_and_with_nothing_else() {
        let plan = choose(Some("make"), &[]).unwrap();
        let files = [file("a/go.sum", "1"), file("main.go", "1")];
        let first = key(&plan, &ground(&files));
        assert_eq!(first, key(&plan, &ground(&[file("a/go.sum", "1"), file("main.go", "2")])));
        let others = [
            key(&plan, &ground(&[file("a/go.sum", "2")])),
            key(&choose(Some("make all"), &[]).unwrap(), &ground(&files)),
            key(&plan, &Ground { provider: "docker", ..ground(&files) }),
            key(&plan, &Ground { base: Some("debian:12"), ..ground(&files) }),
            key(&plan, &Ground { commit: Some("abc"), ..ground(&files) }),
            key(&plan, &Ground { toolchains: &["/opt/go".to_owned()], ..ground(&files) }),
        ];
        for other in &others {
            assert_ne!(*other, first);
        }
    }
}
