//! The life of a sandbox that is a container on this host.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use sunaba_sandbox::{Bind, CreateRequest, Error, Layer, Limits, Prepared, Provider as _, Status, UID_RANGE};
use sunaba_types::{Enforcement, SandboxId};

use crate::support::{Host, exec, provider_in, shell};

const NO_LIMITS: Limits = Limits { memory_bytes: None, cpu_millis: None, pids: None, disk_bytes: None };

#[tokio::test]
async fn it_runs_says_something_and_ends() {
    let Some(host) = Host::new("the life of a container") else { return };
    let id = SandboxId::generate();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Absent);
    let request = CreateRequest::default();
    let first = host.provider.create(&id, &request).await.unwrap();
    assert_eq!(host.provider.create(&id, &request).await.unwrap(), first, "asked again: the same");
    let Prepared::Here(places) = &first else { panic!("it is on this host") };
    std::fs::write(places.workspace.join("file"), "from outside").unwrap();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Prepared);
    let script = "echo $GREETING; cat file; echo; pwd; id -u; exit 3";
    host.provider.start(&id, shell(script)).await.unwrap();
    host.provider.start(&id, shell(script)).await.unwrap_or_else(|error| {
        assert!(matches!(error, Error::AlreadyEnded(_)), "started twice: {error}");
    });
    let exit = host.wait(&id).await;
    assert_eq!((exit.code, exit.signal, exit.killed_on_request), (Some(3), None, false));
    let said = host.provider.output(&id, 0, 1 << 20).await.unwrap();
    let said = String::from_utf8(said).unwrap();
    let uid = places.owner_uid.map_or(nix::unistd::geteuid().as_raw(), |uid| uid);
    assert_eq!(said, format!("hello\nfrom outside\n/workspace\n{uid}\n"));
    assert_eq!(host.provider.output(&id, 6, 4).await.unwrap(), b"from");
    assert!(matches!(host.provider.start(&id, shell("true")).await, Err(Error::AlreadyEnded(_))));
    assert_eq!(host.provider.list().await.unwrap().as_slice(), std::slice::from_ref(&id));
    host.provider.delete(&id).await.unwrap();
    host.provider.delete(&id).await.unwrap();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Absent);
    assert_eq!(host.provider.list().await.unwrap(), []);
    assert_eq!(host.provider.output(&id, 0, 5).await.unwrap(), b"hello", "what it said is kept");
}

#[tokio::test]
async fn it_is_shut_in() {
    let Some(host) = Host::new("the walls of a container") else { return };
    let script = "
        python3 - <<'END'
import os, socket
print('devices', sorted(name for _, name in socket.if_nameindex()))
print('of the machine', os.listdir('/sys'))
try:
    socket.create_connection(('127.0.0.1', 22), 1); print('reached')
except OSError as error:
    print('refused')
END
        touch /usr/x 2>/dev/null && echo wrote-root
        touch /opt/sunaba/sunaba-worker 2>/dev/null && echo wrote-worker
        touch /run/sunaba/x 2>/dev/null && echo wrote-door
        mount -t tmpfs none /mnt 2>/dev/null && echo mounted
        printf '#!/bin/sh\\necho built' > /tmp/run && chmod +x /tmp/run && /tmp/run
        touch /workspace/own /home/agent/own && echo wrote-own
        grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status";
    let (exit, said) = host.run(script, NO_LIMITS).await;
    assert_eq!(exit.code, Some(0), "{said}");
    for word in [
        "devices ['lo']",
        "of the machine []",
        "refused",
        "built",
        "wrote-own",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(said.contains(word), "no {word} in {said}");
    }
    for word in ["reached", "wrote-root", "wrote-worker", "wrote-door", "mounted"] {
        assert!(!said.contains(word), "{said}");
    }
    for set in ["CapEff", "CapBnd"] {
        assert!(said.contains(&format!("{set}:\t0000000000000000")), "{said}");
    }
}

#[tokio::test]
async fn every_sandbox_has_a_host_user_of_its_own_when_the_server_is_root() {
    let Some(host) = Host::new("host users of containers") else { return };
    if !nix::unistd::geteuid().is_root() {
        crate::daemon::left_out("host users of containers", "the tests do not run as root");
        return;
    }
    let mut users = Vec::new();
    for _ in 0..2 {
        let id = host.start("touch /workspace/made; echo made; sleep 600", NO_LIMITS).await;
        host.until_it_says(&id, "made").await;
        let places = host.provider.find(&id).await.unwrap().unwrap().here().unwrap();
        let owner = std::fs::metadata(places.workspace.join("made")).unwrap().uid();
        assert!(UID_RANGE.contains(&owner));
        assert_eq!(places.owner_uid, Some(owner));
        users.push(owner);
        host.provider.delete(&id).await.unwrap();
    }
    assert_ne!(users[0], users[1]);
}

#[tokio::test]
async fn it_outlives_the_server_and_is_adopted() {
    let Some(host) = Host::new("adoption of a container") else { return };
    let id = host.start("echo up; while [ ! -e go ]; do sleep 0.05; done; exit 5", NO_LIMITS).await;
    host.until_it_says(&id, "up").await;
    let next = provider_in(host.dir.path(), &host.daemon);
    assert_eq!(next.list().await.unwrap().as_slice(), std::slice::from_ref(&id));
    assert_eq!(next.status(&id).await.unwrap(), Status::Running);
    next.start(&id, shell("echo another")).await.unwrap();
    let places = next.find(&id).await.unwrap().unwrap().here().unwrap();
    std::fs::write(places.workspace.join("go"), "").unwrap();
    let exit = tokio::time::timeout(crate::support::PATIENCE, next.wait(&id)).await.unwrap().unwrap();
    assert_eq!(exit.code, Some(5));
    assert_eq!(next.output(&id, 0, 100).await.unwrap(), b"up\n", "it was not started again");
    next.delete(&id).await.unwrap();
}

#[tokio::test]
async fn another_server_s_containers_are_none_of_ours() {
    let Some(host) = Host::new("two servers on one daemon") else { return };
    let Some(other) = Host::new("two servers on one daemon") else { return };
    let id = host.start("sleep 600", NO_LIMITS).await;
    assert_eq!(other.provider.list().await.unwrap(), []);
    assert_eq!(host.provider.list().await.unwrap().as_slice(), std::slice::from_ref(&id));
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn asking_it_to_end_and_killing_it_are_told_apart() {
    let Some(host) = Host::new("ending a container") else { return };
    let polite =
        host.start("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done", NO_LIMITS).await;
    host.until_it_says(&polite, "up").await;
    host.provider.terminate(&polite).await.unwrap();
    let exit = host.wait(&polite).await;
    assert_eq!((exit.code, exit.killed_on_request), (Some(7), false));
    host.provider.terminate(&polite).await.expect("not running: does nothing");
    let stubborn = host.start("trap '' TERM; echo up; sleep 600 & wait", NO_LIMITS).await;
    host.until_it_says(&stubborn, "up").await;
    host.provider.kill(&stubborn).await.unwrap();
    let Status::Exited(exit) = host.provider.status(&stubborn).await.unwrap() else { panic!("it is over") };
    assert_eq!((exit.signal, exit.killed_on_request), (Some(9), true));
    host.provider.kill(&stubborn).await.expect("twice is harmless");
    for id in [polite, stubborn] {
        host.provider.delete(&id).await.unwrap();
    }
    let unknown = SandboxId::generate();
    assert!(matches!(host.provider.kill(&unknown).await, Err(Error::NotFound(_))));
    host.provider.delete(&unknown).await.expect("nothing to delete");
}

#[tokio::test]
async fn orphans_are_taken_in() {
    let Some(host) = Host::new("orphans in a container") else { return };
    let script = "
        for i in 1 2 3; do (sh -c 'sleep 0.1' &) ; done
        sleep 1
        ps -A -o stat= -o comm= | grep -c '^Z' ; ps -A -o pid= -o comm= | head -3";
    let (exit, said) = host.run(script, NO_LIMITS).await;
    assert_eq!(exit.code, Some(0));
    assert!(said.starts_with("0\n"), "zombies: {said}");
}

#[tokio::test]
async fn limits_hold() {
    let Some(host) = Host::new("limits of a container") else { return };
    let memory = Limits { memory_bytes: Some(64 << 20), ..NO_LIMITS };
    let eat = "python3 -c 'x = bytearray(300 << 20); print(len(x))'; exit $?";
    let (exit, said) = host.run(eat, memory).await;
    assert!(!said.contains("314572800"), "{said}");
    assert!(exit.oom_kills >= 1 && !exit.killed_on_request, "{exit:?} {said}");
    let pids = Limits { pids: Some(16), ..NO_LIMITS };
    let spawn = "python3 - <<'END'
import os, time
made = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(5); os._exit(0)
        made += 1
except OSError:
    print('stopped', made < 16)
END";
    let (_, said) = host.run(spawn, pids).await;
    assert!(said.contains("stopped True"), "{said}");
    let cpu = Limits { cpu_millis: Some(200), ..NO_LIMITS };
    let spin = "python3 - <<'END'
import time, os
began = time.time()
while time.time() - began < 2: pass
used = os.times(); print('used', used.user + used.system < 1.2)
END";
    let (_, said) = host.run(spin, cpu).await;
    assert!(said.contains("used True"), "{said}");
}

#[tokio::test]
async fn what_fills_the_disk_is_stopped() {
    let Some(host) = Host::new("the disk of a container") else { return };
    let limits = Limits { disk_bytes: Some(32 << 20), ..NO_LIMITS };
    let fill = "dd if=/dev/zero of=/workspace/big bs=1M count=200 2>/dev/null; echo $?; sleep 60";
    let id = host.start(fill, limits).await;
    let kept = host.provider.isolation().await.unwrap().disk;
    match kept {
        // The file system is full, and the sandbox goes on.
        Enforcement::Kernel => {
            host.until_it_says(&id, "1").await;
            assert!(host.provider.usage(&id).await.unwrap().disk_bytes <= 32 << 20);
        }
        Enforcement::Sampled => {
            let exit = host.wait(&id).await;
            assert_eq!(exit.ended_for.as_deref(), Some("disk"));
            assert!(!exit.killed_on_request);
        }
        Enforcement::None => panic!("nothing bounds the disk on this host"),
    }
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn more_processes_run_beside_the_command() {
    let Some(host) = Host::new("exec in a container") else { return };
    let id = host.start("echo up; sleep 600", Limits { pids: Some(64), ..NO_LIMITS }).await;
    host.until_it_says(&id, "up").await;
    let script = "cat; echo $MORE $GREETING; pwd; id -u >&2; exit 4";
    let mut request = exec(script);
    request.input = b"typed\n".to_vec();
    let result = host.provider.exec(&id, request).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&result.stdout), "typed\ngiven hello\n/workspace\n");
    assert!(!result.stderr.is_empty());
    assert_eq!(
        (result.code, result.signal, result.timed_out, result.truncated),
        (Some(4), None, false, false)
    );
    let mut request = exec("seq 1 100000");
    request.output_max = 10;
    let result = host.provider.exec(&id, request).await.unwrap();
    assert_eq!((result.stdout.as_slice(), result.truncated), (&b"1\n2\n3\n4\n5\n"[..], true));
    let mut request = exec("(setsid sleep 500 &); sleep 500");
    request.timeout = Duration::from_millis(700);
    let began = Instant::now();
    let result = host.provider.exec(&id, request).await.unwrap();
    assert!(result.timed_out && result.code.is_none(), "{result:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let left = host.provider.exec(&id, exec("ps -A -o args= | grep -c '^sleep 500'")).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "0\n", "everything it started is gone");
    let used = host.provider.usage(&id).await.unwrap();
    assert!(used.memory_bytes > 0 && used.pids > 1, "{used:?}");
    host.provider.delete(&id).await.unwrap();
    assert!(host.provider.exec(&id, exec("true")).await.is_err());
}

#[tokio::test]
async fn files_go_in_and_out_and_no_link_leads_away() {
    let Some(host) = Host::new("files of a container") else { return };
    let script = "ln -s /etc /workspace/away; ln -s /etc/passwd /workspace/passwd; mkdir /workspace/dir; echo up; sleep 600";
    let id = host.start(script, NO_LIMITS).await;
    host.until_it_says(&id, "up").await;
    let provider = &host.provider;
    provider.write_file(&id, "/workspace/dir/tool", b"#!/bin/sh\necho ran\n", 0o755).await.unwrap();
    provider.write_file(&id, "/home/agent/notes", &[7; 100_000], 0o600).await.unwrap();
    let ran = provider.exec(&id, exec("/workspace/dir/tool && rm dir/tool && wc -c < ~/notes")).await;
    let ran = ran.unwrap();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(provider.read_file(&id, "/home/agent/notes", 10).await.unwrap(), [7; 10]);
    assert_eq!(provider.read_file(&id, "/home/agent/notes", 1 << 20).await.unwrap().len(), 100_000);
    for path in ["/etc/passwd", "/workspace/../etc/passwd", "/workspace/away/passwd", "/workspace/passwd"] {
        let error = provider.read_file(&id, path, 10).await.unwrap_err();
        assert!(matches!(error, Error::BadPath { .. }), "{path}: {error}");
        if path == "/workspace/passwd" {
            continue;
        }
        let error = provider.write_file(&id, path, b"x", 0o600).await.unwrap_err();
        assert!(matches!(error, Error::BadPath { .. }), "{path}: {error}");
    }
    // A file takes the place of a link; what the link named is left alone.
    provider.write_file(&id, "/workspace/passwd", b"own", 0o600).await.unwrap();
    assert_eq!(provider.read_file(&id, "/workspace/passwd", 10).await.unwrap(), b"own");
    let left = provider.exec(&id, exec("grep -c ^root: /etc/passwd")).await.unwrap();
    assert_eq!(left.stdout, b"1\n");
    provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn what_is_bound_and_laid_under_is_seen_and_not_changed() {
    let Some(host) = Host::new("binds and layers of a container") else { return };
    let shared = host.dir.path().join("shared");
    let layer = host.dir.path().join("layer");
    for dir in [&shared, &layer] {
        std::fs::create_dir(dir).unwrap();
        std::os::unix::fs::lchown(dir, Some(0), Some(0)).unwrap();
    }
    std::fs::write(shared.join("shared"), "shared\n").unwrap();
    std::fs::write(layer.join("laid"), "laid\n").unwrap();
    let id = SandboxId::generate();
    host.provider.create(&id, &CreateRequest::default()).await.unwrap();
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let mut request = shell(
        "cat /opt/more/shared ~/laid; touch /opt/more/x 2>/dev/null || echo kept; rm -f ~/laid; echo own > ~/own; ls ~",
    );
    request.binds.push(Bind { source: text(&shared), target: "/opt/more".to_owned(), writable: false });
    request.layers.push(Layer { source: text(&layer), target: "/home/agent".to_owned() });
    host.provider.start(&id, request).await.unwrap();
    let exit = host.wait(&id).await;
    let said = String::from_utf8(host.provider.output(&id, 0, 1000).await.unwrap()).unwrap();
    assert_eq!((exit.code, said.as_str()), (Some(0), "shared\nlaid\nkept\nown\n"));
    assert_eq!(std::fs::read_to_string(layer.join("laid")).unwrap(), "laid\n");
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn a_container_that_was_taken_away_is_lost_and_a_bad_start_is_none() {
    let Some(host) = Host::new("a container that vanishes") else { return };
    let id = SandboxId::generate();
    host.provider.create(&id, &CreateRequest::default()).await.unwrap();
    let mut request = shell("true");
    request.binds.push(Bind {
        source: "/no/such/place".to_owned(),
        target: "/x".to_owned(),
        writable: false,
    });
    let error = host.provider.start(&id, request).await.unwrap_err();
    assert!(matches!(error, Error::StartFailed { .. }), "{error}");
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Prepared, "nothing ran");
    host.provider.start(&id, shell("sleep 600")).await.unwrap();
    let docker =
        bollard::Docker::connect_with_host(&host.daemon.host).unwrap().negotiate_version().await.unwrap();
    let force = bollard::query_parameters::RemoveContainerOptionsBuilder::new().force(true).build();
    docker.remove_container(&format!("sunaba-{id}"), Some(force)).await.unwrap();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Lost);
    assert!(matches!(host.provider.wait(&id).await, Err(Error::Lost(_))));
    host.provider.delete(&id).await.unwrap();
    assert_eq!(host.provider.status(&id).await.unwrap(), Status::Absent);
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_named() {
    let Some(host) = Host::new("a missing image") else { return };
    let id = SandboxId::generate();
    let image = Some("127.0.0.1:9/nobody/nothing:1".to_owned());
    let request = CreateRequest { image, ..CreateRequest::default() };
    host.provider.fetch(&CreateRequest::default()).await.expect("the usual one is there");
    let unfetched = host.provider.fetch(&request).await.unwrap_err().to_string();
    host.provider.create(&id, &request).await.unwrap();
    let unstarted = host.provider.start(&id, shell("true")).await.unwrap_err().to_string();
    for error in [unfetched, unstarted] {
        assert!(error.contains("127.0.0.1:9/nobody/nothing:1") && error.contains("SANDBOX_IMAGE"), "{error}");
    }
    host.provider.delete(&id).await.unwrap();
}

#[tokio::test]
async fn what_the_daemon_enforces_is_reported() {
    let Some(host) = Host::new("a daemon's report") else { return };
    let isolation = host.provider.isolation().await.unwrap();
    assert!(isolation.namespaces && isolation.network_closed && isolation.seccomp);
    assert_eq!(isolation.memory, Enforcement::Kernel);
    let report = host.provider.report().await;
    assert_eq!(report.isolation, Some(isolation));
    assert!(report.findings.iter().any(|finding| finding.name == "container daemon"));
}

#[tokio::test]
async fn a_daemon_that_is_away_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = crate::daemon::TestDaemon {
        host: format!("unix://{}/nobody.sock", dir.path().display()),
        image: "none".to_owned(),
    };
    let provider = provider_in(dir.path(), &daemon);
    let error = provider.isolation().await.unwrap_err().to_string();
    assert!(error.contains("DOCKER_HOST") && error.contains("nobody.sock"), "{error}");
    let report = provider.report().await;
    assert!(report.isolation.is_none() && report.findings[0].remedy.is_some());
}
