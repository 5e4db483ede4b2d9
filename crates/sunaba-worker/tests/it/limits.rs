//! How limits are kept on this host: by groups and disks that are there for exactly as long as the sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sunaba_sandbox::{
    CreateRequest, Exit, Keeping, Limits, LocalProvider, Provider as _, Status, cgroup, disk, process,
};
use sunaba_types::{Enforcement, SandboxId};

use crate::support::{Host, PATIENCE, is_root, provider_in, shell, until};

const SOME: Limits = Limits {
    memory_bytes: Some(256 << 20),
    cpu_millis: Some(1000),
    pids: Some(256),
    disk_bytes: Some(32 << 20),
};

/// Everything on the machine that carries the name of this data directory or lies below it.
fn traces(host: &Host) -> Vec<String> {
    let root = host.dir.path().join("sandboxes").canonicalize().unwrap();
    let tag = cgroup::tag(&root);
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(root.to_str().unwrap())).map(str::to_owned));
    for group in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let dir = Path::new(group.split(' ').nth(4).unwrap()).join(&tag);
        if dir.exists() {
            found.push(dir.display().to_string());
        }
    }
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim()).starts_with(&root) {
            found.push(file);
        }
    }
    found
}

fn groups_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

#[tokio::test]
async fn the_sandbox_is_in_its_groups_and_the_shim_in_none_of_the_servers() {
    let host = Host::new().await;
    let (id, _) = host.start_with(SOME, "sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().unwrap();
    let usable = cgroup::find(&cgroup::View::default(), "sunaba-looking");
    let (inside, shim) = (groups_of(held.init_pid), groups_of(held.shim_pid));
    let count = |text: &str, end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!(count(&inside, id.as_str()), usable.len(), "{inside}");
    assert_eq!(count(&shim, "/shims"), usable.len(), "{shim}");
    assert!(!is_root() || !usable.is_empty(), "root can use at least one hierarchy");
    host.provider.delete(&id).await.unwrap();
    assert_eq!(traces(&host), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_left_after_the_shim_was_killed() {
    let host = Host::new().await;
    let (id, prepared) = host.start_with(SOME, "setsid sleep 600 & sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().unwrap();
    kill(Pid::from_raw(held.shim_pid), Signal::SIGKILL).unwrap();
    let alive = || process::of_sandbox(Some(held.pid_namespace), prepared.owner_uid);
    until("every process is gone", || alive().is_empty()).await;
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Lost);
    let next = provider_in(host.dir.path());
    assert_eq!(next.list().await.unwrap(), vec![id.clone()]);
    next.delete(&id).await.unwrap();
    assert_eq!(traces(&host), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_left_after_the_launcher_was_killed() {
    let host = Host::new().await;
    let (id, prepared) = host.start_with(SOME, "sleep 600").await;
    let held = host.provider.held(&id).await.unwrap().unwrap();
    for child in process::children(held.shim_pid) {
        kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    }
    let exit = host.provider.wait(&id).await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.killed_on_request), (None, Some(9), false));
    assert_eq!(process::of_sandbox(None, prepared.owner_uid), Vec::<i32>::new());
    host.provider.delete(&id).await.unwrap();
    assert_eq!(traces(&host), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_cut_off_creation_or_removal_left_is_listed_and_removed() {
    let host = Host::new().await;
    let root = host.dir.path().join("sandboxes").canonicalize().unwrap();
    // Killed while the image was made: only half of it is there.
    let half = SandboxId::generate();
    fs::create_dir(root.join(half.as_str())).unwrap();
    fs::write(root.join(half.as_str()).join("disk.new"), "").unwrap();
    let mut expected = vec![half.clone()];
    // Killed in a removal: the directory is gone and a group, or a mount, is not.
    let group = SandboxId::generate();
    let hierarchies = cgroup::find(&cgroup::View::default(), &cgroup::tag(&root));
    let groups = cgroup::Groups::new(hierarchies.clone(), &cgroup::tag(&root), group.as_str());
    groups.make(&SOME).unwrap();
    if !hierarchies.is_empty() {
        expected.push(group.clone());
    }
    let mounted = SandboxId::generate();
    if is_root() {
        let dir = root.join(mounted.as_str());
        fs::create_dir(&dir).unwrap();
        disk::Disks::new(&root).attach(mounted.as_str(), disk::DISK_MIN_BYTES).unwrap();
        fs::remove_file(dir.join(disk::IMAGE_FILE)).unwrap();
        fs::remove_dir(&dir).unwrap();
        expected.push(mounted.clone());
    }
    expected.sort();
    assert_eq!(host.provider.list().await.unwrap(), expected);
    for id in &expected {
        host.provider.delete(id).await.unwrap();
    }
    assert_eq!(host.provider.list().await.unwrap(), []);
    assert_eq!(traces(&host), Vec::<String>::new());
}

#[tokio::test]
async fn a_disk_survives_the_server_between_creation_and_start() {
    let host = Host::new().await;
    let id = SandboxId::generate();
    let request = CreateRequest { limits: SOME, image: None };
    let places = host.provider.create(&id, &request).await.unwrap().here().unwrap();
    fs::write(places.workspace.join("cloned"), "by the server").unwrap();
    let next = provider_in(host.dir.path());
    assert_eq!(next.find(&id).await.unwrap().unwrap().here().unwrap(), places);
    next.start(&id, shell("cat cloned; df -P /workspace | tail -1")).await.unwrap();
    next.wait(&id).await.unwrap();
    let said = String::from_utf8(next.output(&id, 0, 1000).await.unwrap()).unwrap();
    assert!(said.starts_with("by the server"), "{said}");
    assert_eq!(said.contains("loop"), is_root(), "{said}");
}

#[tokio::test]
async fn one_disk_is_not_held_by_a_sandbox_that_began_later() {
    let host = Host::new().await;
    let (first, _) = host.start_with(SOME, "sleep 600").await;
    let (second, _) = host.start_with(SOME, "sleep 600").await;
    host.provider.delete(&first).await.expect("its loop device is free although the second still runs");
    let left = traces(&host);
    assert!(!left.iter().any(|trace| trace.contains(first.as_str())), "{left:?}");
    host.provider.delete(&second).await.unwrap();
    assert_eq!(traces(&host), Vec::<String>::new());
}

#[tokio::test]
async fn root_keeps_everything_by_the_kernel_where_it_can() {
    let host = Host::new().await;
    let isolation = host.provider.isolation().await.unwrap();
    let usable = cgroup::find(&cgroup::View::default(), "sunaba-looking-again");
    let kept = |controller| match usable.iter().any(|hierarchy| hierarchy.has(controller)) {
        true => Enforcement::Kernel,
        false => Enforcement::Sampled,
    };
    assert_eq!(isolation.memory, kept(cgroup::Controller::Memory));
    assert_eq!(isolation.cpu, kept(cgroup::Controller::Cpu));
    assert_eq!(isolation.pids, kept(cgroup::Controller::Pids));
    assert!(isolation.seccomp, "the filter loads");
    if is_root() && PathBuf::from("/dev/loop-control").exists() {
        assert_eq!(isolation.disk, Enforcement::Kernel);
    }
}

/// Runs a script to its end where every limit is kept by looking.
async fn run_sampled(host: &Host, limits: Limits, script: &str) -> (Exit, String) {
    let provider: LocalProvider = provider_in(host.dir.path()).keeping(Keeping::Sampling);
    let id = SandboxId::generate();
    provider.create(&id, &CreateRequest { limits, image: None }).await.unwrap();
    provider.start(&id, shell(script)).await.unwrap();
    let exit = tokio::time::timeout(PATIENCE, provider.wait(&id)).await.expect("it ends").unwrap();
    let said = provider.output(&id, 0, 1 << 20).await.unwrap();
    provider.delete(&id).await.unwrap();
    (exit, String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn memory_that_no_process_has_is_counted() {
    let host = Host::new().await;
    let limits = Limits { memory_bytes: Some(128 << 20), ..Limits::default() };
    // Each is written to and let go: it stays, and no process has it. The first round is within the limit.
    let take = |segments: u32| {
        format!(
            "perl -e 'my $fill = \"x\" x (8 << 20); for (1..{segments}) {{ \
             my $id = shmget(0, 8 << 20, 01600); defined $id or die; shmwrite($id, $fill, 0, 8 << 20) or die }}' \
             && echo taken"
        )
    };
    let (exit, said) = run_sampled(&host, limits, &format!("{}; sleep 2; echo fine", take(4))).await;
    assert_eq!((exit.code, said.as_str()), (Some(0), "taken\nfine\n"), "{exit:?}");
    let (exit, said) = run_sampled(&host, limits, &format!("{}; sleep 15; echo kept it", take(40))).await;
    assert_eq!(exit.ended_for.as_deref(), Some("memory"), "{exit:?} {said}");
    assert!(!said.contains("kept it"), "{said}");
    // Messages that nobody receives are the kernel's memory too.
    let messages = "perl -e 'my $fill = \"x\" x 8000; for (1..20000) { my $id = msgget(0, 01600); \
                    defined $id or die; msgsnd($id, pack(\"l! a*\", 1, $fill), 0) or die }' && echo taken";
    let (exit, said) = run_sampled(&host, limits, &format!("{messages}; sleep 15; echo kept it")).await;
    assert_eq!(exit.ended_for.as_deref(), Some("memory"), "{exit:?} {said}");
}

#[tokio::test]
async fn disk_that_has_no_name_or_is_shut_is_counted() {
    let host = Host::new().await;
    let limits = Limits { disk_bytes: Some(64 << 20), ..Limits::default() };
    let write = |then: &str, bytes: u32| {
        format!(
            "python3 -c '\nimport mmap, os, time\nos.mkdir(\"d\")\nfile = open(\"d/fill\", \"w+b\")\n\
             for _ in range({bytes} >> 20): file.write(b\"x\" * (1 << 20))\nfile.flush()\n{then}\n\
             time.sleep({})' && echo kept it",
            if bytes > 64 << 20 { 15 } else { 3 }
        )
    };
    for (trick, then) in [
        ("removed and open", "os.unlink(\"d/fill\")"),
        ("removed and mapped", "held = mmap.mmap(file.fileno(), 0); os.unlink(\"d/fill\"); file.close()"),
        ("shut to readers", "os.chmod(\"d\", 0o300)"),
        ("shut to everybody", "os.chmod(\"d\", 0)"),
    ] {
        let (exit, said) = run_sampled(&host, limits, &write(then, 200 << 20)).await;
        assert_eq!(exit.ended_for.as_deref(), Some("disk"), "{trick}: {exit:?} {said}");
        assert!(!said.contains("kept it"), "{trick}: {said}");
        let (exit, said) = run_sampled(&host, limits, &write(then, 20 << 20)).await;
        assert_eq!((exit.code, said.as_str()), (Some(0), "kept it\n"), "{trick}, within the limit: {exit:?}");
    }
}

#[tokio::test]
async fn open_files_are_limited_and_can_be_raised_so_far() {
    let host = Host::new().await;
    let script =
        "ulimit -Sn; ulimit -Hn; ulimit -Sn $(ulimit -Hn) && ulimit -Sn; ulimit -Hn 100000 || echo no";
    let (_, said) = host.run(&format!("exec 2>&1; {script}")).await;
    let lines: Vec<&str> = said.lines().collect();
    let hard: u64 = lines[1].parse().unwrap();
    assert!(lines[0] == "1024" && (1024..=65_536).contains(&hard) && lines[2] == lines[1], "{said}");
    assert!(said.trim_end().ends_with("no"), "{said}");
}

#[tokio::test]
async fn a_sandbox_cannot_fill_the_hosts_table_of_open_files() {
    let most: u64 = fs::read_to_string("/proc/sys/fs/file-max").unwrap().trim().parse().unwrap();
    let share = most / 8;
    if share > 1 << 20 {
        println!("left out: this host's table of {most} open files is too large to try");
        return;
    }
    let host = Host::new().await;
    // As many processes as it takes, each with as many files as it may have; all stay open for a while.
    let each = 16_000;
    let bomb = format!(
        "ulimit -Sn $(ulimit -Hn); for n in $(seq {}); do perl -e 'my @held; for (1..{each}) {{ \
         open(my $file, \"<\", \"/dev/null\") or last; push @held, $file }} sleep 30' & done; sleep 25; echo kept them",
        share / each + 4
    );
    let (id, _) = host.start_with(Limits { memory_bytes: Some(4 << 30), ..Limits::default() }, &bomb).await;
    let exit = tokio::time::timeout(PATIENCE, host.provider.wait(&id)).await.expect("it ends").unwrap();
    assert_eq!(exit.ended_for.as_deref(), Some("open files"), "{exit:?}");
    host.provider.delete(&id).await.unwrap();
}
