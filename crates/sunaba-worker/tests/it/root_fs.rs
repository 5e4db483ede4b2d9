//! A directory as the root file system.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sunaba_sandbox::{Error, StartRequest};

use crate::support::{Host, shell};
use crate::trial;

/// A small system: a shell and some tools with the libraries they need, at the same places.
fn small_system(root: &Path) {
    let programs =
        ["/bin/sh", "/usr/bin/cat", "/usr/bin/ls", "/usr/bin/id", "/usr/bin/touch", "/usr/bin/find"];
    let worker = env!("CARGO_BIN_EXE_sunaba-worker");
    for program in programs {
        copy(root, Path::new(program));
    }
    for program in programs.iter().chain([&worker]) {
        let output = Command::new("ldd").arg(program).output().unwrap();
        for word in
            String::from_utf8_lossy(&output.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            copy(root, Path::new(word));
        }
    }
    for dir in ["etc", "home/other", "opt/tool", "var/lib", "srv"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/:/bin/sh\n")
        .unwrap();
    std::fs::write(root.join("etc/mark"), "of this root\n").unwrap();
    symlink("/nowhere/resolv.conf", root.join("etc/resolv.conf")).unwrap();
    symlink("srv", root.join("link")).unwrap();
    std::fs::set_permissions(root, PermissionsExt::from_mode(0o755)).unwrap();
}

fn copy(root: &Path, file: &Path) {
    let target = root.join(file.strip_prefix("/").unwrap());
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    if !target.exists() {
        std::fs::copy(std::fs::canonicalize(file).unwrap(), &target).unwrap();
    }
}

fn listing(root: &Path) -> Vec<String> {
    let output = Command::new("find").arg(root).args(["-printf", "%p %m %s %T@\n"]).output().unwrap();
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn request(root: &Path, script: &str) -> StartRequest {
    StartRequest { root_fs: Some(root.to_str().unwrap().to_owned()), ..shell(script) }
}

#[tokio::test]
async fn the_directory_is_the_root_and_is_never_written_to() {
    let host = Host::new().await;
    // Below a directory that only this user may enter.
    let root: PathBuf = host.dir.path().join("closed/root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::set_permissions(root.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
    small_system(&root);
    let before = listing(&root);
    let script = "ls /; echo --; ls /usr/bin; echo --; cat /etc/mark /etc/hostname /etc/resolv.conf; id -un; ls -d /home/* /opt/*; echo --; \
                  for p in / /usr /etc /opt /home /srv /etc/passwd; do touch $p/x 2>/dev/null && echo wrote $p; done; \
                  touch /tmp/x /home/agent/x /workspace/x && echo writable; cat /proc/self/comm; ls /link";
    let (exit, output) = trial::run(&host.provider, request(&root, script), |_| {}).await.unwrap();
    assert_eq!((exit.code, exit.error.as_deref()), (Some(0), None), "{output}");
    let parts: Vec<_> = output.split("--\n").collect();
    let top: Vec<_> = parts[0].lines().collect();
    for name in
        ["bin", "usr", "etc", "home", "opt", "srv", "proc", "dev", "tmp", "run", "var", "workspace", "link"]
    {
        assert!(top.contains(&name), "{name} is missing: {output}");
    }
    assert!(!top.contains(&"sys") && !top.contains(&"root"), "{output}");
    assert_eq!(parts[1].lines().count(), 5, "only its own programs: {output}");
    let rest: Vec<_> = parts[2].lines().collect();
    assert_eq!(rest[0], "of this root");
    assert!(rest[1].starts_with("sbx-"), "{output}");
    assert_eq!(rest[2..], ["agent", "/home/agent", "/home/other", "/opt/sunaba", "/opt/tool"], "{output}");
    assert_eq!(parts[3], "writable\ncat\n", "{output}");
    assert_eq!(listing(&root), before, "nothing was made in it, changed or removed");
}

#[tokio::test]
async fn what_cannot_be_a_root_says_why() {
    let host = Host::new().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (root, words) in [
        (dir.path(), "no /bin/sh"),
        (file.as_path(), "not a directory"),
        (Path::new("/no/such/root"), "not a directory"),
    ] {
        let error = trial::run(&host.provider, request(root, "true"), |_| {}).await.unwrap_err();
        assert!(matches!(error, Error::StartFailed { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
