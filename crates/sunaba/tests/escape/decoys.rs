//! What the attempts are aimed at: throwaway files, programs and a process, made for one run.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::attempt::Attempt;
use crate::attempts;

/// The ordinary user of these tests where they run as root; nobody's number.
pub(crate) const USER: u32 = 54_321;
/// Another one, whose secrets a setuid program could read.
const OTHER_USER: u32 = 54_322;

/// Names and values that scripts find in their environment.
pub(crate) type Facts = BTreeMap<String, String>;

/// Everything that is made for one run, below one directory.
pub(crate) struct Decoys {
    pub(crate) root: tempfile::TempDir,
    pub(crate) canary: String,
    pub(crate) facts: Facts,
    victim: Child,
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The user that owns the decoys.
pub(crate) fn user() -> u32 {
    if is_root() { USER } else { nix::unistd::geteuid().as_raw() }
}

/// A command as that user.
pub(crate) fn as_user(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let uid = USER.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--", program]);
    command
}

impl Decoys {
    pub(crate) fn make() -> Self {
        let root = tempfile::Builder::new().prefix("sunaba-escape-").tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let canary = format!("canary-{}", uuid::Uuid::new_v4().simple());
        for name in ["decoy", "tracks", "scratch", "home"] {
            let dir = root.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            give(&dir, user(), 0o777);
        }
        write_scripts(&root.path().join("lib"));
        make_files(&root.path().join("decoy"), &canary);
        let mut facts = Facts::new();
        let decoy = root.path().join("decoy");
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        facts.insert("DECOY".into(), path(&decoy));
        facts.insert("TOOLS".into(), path(&root.path().join("tools")));
        facts.insert("DECOY_OBJECT".into(), make_repositories(&decoy, &canary));
        facts.insert("HANDLE".into(), handle_of(&decoy.join("file")));
        facts.insert("DISK".into(), disk());
        facts.insert("HOST_IP".into(), host_address());
        if is_root() {
            make_tools(&root.path().join("tools"), &canary);
        }
        let victim = start_victim(root.path(), &canary, &mut facts);
        Self { root, canary, facts, victim }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// What the guard is missing where an attempt is made without it: decoys in place of the sandbox's own.
    pub(crate) fn outside(&self) -> Facts {
        let decoy = &self.facts["DECOY"];
        let mut facts = self.facts.clone();
        let mut set = |name: &str, value: String| drop(facts.insert(name.to_owned(), value));
        set("SYSTEM_DIRS", format!("{decoy}/system"));
        set("WORKER", format!("{decoy}/system/worker"));
        set("MIRROR_OBJECTS", format!("{decoy}/repo/.git/objects"));
        set("GIT_URL", format!("{decoy}/bare.git"));
        set("OTHER_GIT_URL", format!("{decoy}/other.git"));
        set("DOOMED_URL", format!("{decoy}/doomed.git"));
        set("CROOKED_URLS", format!("{decoy}/bare.git/../other.git"));
        set("OWN_BRANCH", "sunaba/own".to_owned());
        set("HOME", self.path("home").to_str().unwrap().to_owned());
        set("TMPDIR", self.path("scratch").to_str().unwrap().to_owned());
        set("LIB", self.path("lib").to_str().unwrap().to_owned());
        set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
        facts
    }

    /// Forgets what the attempts without their guards left behind.
    pub(crate) fn sweep(&self) {
        for track in std::fs::read_dir(self.path("tracks")).unwrap().flatten() {
            std::fs::remove_file(track.path()).unwrap();
        }
        let _ = std::fs::remove_file(self.path("decoy/scribble"));
    }

    /// What was touched since.
    pub(crate) fn tracks(&self) -> Vec<String> {
        let tracks = std::fs::read_dir(self.path("tracks")).unwrap().flatten();
        let mut found: Vec<String> =
            tracks.map(|track| track.file_name().to_string_lossy().into_owned()).collect();
        if self.path("decoy/scribble").exists() {
            found.push("scribble".to_owned());
        }
        if std::fs::read_to_string(self.path("decoy/file")).unwrap().trim() != self.canary {
            found.push("the decoy file was changed".to_owned());
        }
        found
    }
}

impl Drop for Decoys {
    fn drop(&mut self) {
        // It ends with its input, and takes with it what the kernel keeps for it.
        drop(self.victim.stdin.take());
        let _ = self.victim.wait();
    }
}

fn give(path: &Path, owner: u32, mode: u32) {
    if is_root() {
        chown(path, Some(owner), Some(owner)).unwrap();
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The attempts as files, by where they are made without their guard, and all together.
pub(crate) fn write_scripts(lib: &Path) {
    std::fs::create_dir(lib).unwrap();
    for (name, text) in [
        ("prelude.sh", include_str!("scripts/prelude.sh")),
        ("prelude.py", include_str!("scripts/prelude.py")),
        ("driver.sh", include_str!("scripts/driver.sh")),
        ("victim.py", include_str!("scripts/victim.py")),
        ("victim_sandbox.sh", include_str!("scripts/victim_sandbox.sh")),
        ("namespace.sh", include_str!("scripts/namespace.sh")),
    ] {
        std::fs::write(lib.join(name), text).unwrap();
    }
    let write = |dir: &str, attempt: &Attempt| {
        std::fs::create_dir_all(lib.join(dir)).unwrap();
        std::fs::write(lib.join(dir).join(attempt.file_name()), attempt.script).unwrap();
    };
    for (_, attempt) in attempts::attacks() {
        write("attack", attempt);
        write(attempt.without.word(), attempt);
    }
    attempts::SUPERSEDED.attempts.iter().for_each(|attempt| write(attempts::SUPERSEDED.name, attempt));
    for attempt in attempts::LIMITS.attempts.iter().chain([&attempts::PROCESSOR]) {
        write(&format!("{}/{}", attempts::LIMITS.name, attempt.name), attempt);
    }
}

fn make_files(decoy: &Path, canary: &str) {
    for (name, text) in [("file", format!("{canary}\n")), (canary, String::new())] {
        std::fs::write(decoy.join(name), text).unwrap();
        give(&decoy.join(name), user(), 0o666);
    }
    std::fs::create_dir(decoy.join("system")).unwrap();
    std::fs::write(decoy.join("system/worker"), "").unwrap();
    give(&decoy.join("system/worker"), user(), 0o755);
    give(&decoy.join("system"), user(), 0o777);
}

/// A repository with a secret in it, and two bare ones to push to; the secret's name.
fn make_repositories(decoy: &Path, canary: &str) -> String {
    let script = r#"set -e
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x.invalid GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x.invalid
git init -q -b main repo && cd repo && git commit -q --allow-empty -m first && git commit -q --allow-empty -m second
for name in bare other doomed; do git clone -q --bare . ../$name.git; done
git -C ../doomed.git config receive.denyDeleteCurrent ignore
echo "$CANARY" | git hash-object -w --stdin"#;
    let output =
        as_user("bash").args(["-c", script]).current_dir(decoy).env("CANARY", canary).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Programs that would run as another user, and what that user could read.
fn make_tools(tools: &Path, canary: &str) {
    std::fs::create_dir(tools).unwrap();
    for (name, mode) in [("setuid-cat", 0o4755), ("setgid-cat", 0o2755), ("capable-cat", 0o755)] {
        std::fs::copy("/usr/bin/cat", tools.join(name)).unwrap();
        give(&tools.join(name), OTHER_USER, mode);
    }
    for (name, mode) in [("secret", 0o400), ("group-secret", 0o040)] {
        std::fs::write(tools.join(name), canary).unwrap();
        give(&tools.join(name), OTHER_USER, mode);
    }
    let status =
        Command::new("setcap").args(["cap_dac_override+ep", "capable-cat"]).current_dir(tools).status();
    assert!(status.is_ok_and(|status| status.success()), "setcap: install the package `libcap2-bin`");
    std::fs::set_permissions(tools, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The file's handle, by which a process with the right capability opens it from anywhere.
fn handle_of(path: &Path) -> String {
    let script = format!(
        "{}\nhandle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)\nmount = ctypes.c_int()\n\
         result = LIBC.syscall(ctypes.c_long(NUMBERS['name_to_handle_at'][platform.machine() != 'x86_64']), -100, sys.argv[1].encode(), handle, ctypes.byref(mount), 0)\n\
         print(handle.raw[:8 + struct.unpack('I', handle.raw[:4])[0]].hex() if result == 0 else '')",
        include_str!("scripts/prelude.py")
    );
    let output = Command::new("/usr/bin/python3").args(["-c", &script]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The disk that holds `/`, as `major:minor`; empty where there is none.
fn disk() -> String {
    let device = std::fs::metadata("/").unwrap().dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    if major == 0 { String::new() } else { format!("{major}:{minor}") }
}

/// An address of this machine that is not loopback, if it has one. Nothing is sent.
fn host_address() -> String {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let asked = socket.connect("203.0.113.1:9").and_then(|()| socket.local_addr());
    asked.map_or_else(|_| "127.0.0.2".to_owned(), |address| address.ip().to_string())
}

fn start_victim(root: &Path, canary: &str, facts: &mut Facts) -> Child {
    let mut victim = as_user("/usr/bin/python3")
        .arg(root.join("lib/victim.py"))
        .arg(canary)
        .args([root.join("decoy"), root.join("tracks")])
        .arg("0")
        .env_clear()
        .env("DECOY_SECRET", canary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).expect("the victim starts");
    for (name, key) in [
        ("VICTIM_PID", "pid"),
        ("VICTIM_FD", "fd"),
        ("VICTIM_ADDRESS", "address"),
        ("VICTIM_LENGTH", "length"),
        ("SHM_KEY", "shm_key"),
        ("KEY_ID", "key_id"),
        ("PORT", "port"),
        ("ABSTRACT", "abstract"),
        ("QUEUE", "queue"),
    ] {
        let value = &said[key];
        facts.insert(name.to_owned(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    victim
}
