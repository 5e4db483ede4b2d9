//! Bad input and hosts that cannot: a clear error, and nothing left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{DEADLINE, Ran, Server, http, repository, sunaba};

async fn ask(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let request = http().post(format!("{}{path}", server.url)).bearer_auth(server.token()).json(body);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn get(server: &Server, path: &str) -> Value {
    let request = http().get(format!("{}{path}", server.url)).bearer_auth(server.token());
    request.send().await.unwrap().json().await.unwrap()
}

async fn until_state(server: &Server, id: &str, wanted: &str) -> Value {
    let started = Instant::now();
    loop {
        let row = get(server, &format!("/api/v1/sandboxes/{id}")).await;
        if row["state"] == wanted {
            return row;
        }
        assert!(started.elapsed() < DEADLINE, "{id} is not {wanted}: {row}\n{}", server.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn sandbox_directories(data: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(data.join("sandboxes")) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_before_anything_is_made() {
    let server = Server::start(&[]);
    let repo = repository(server.data.path());
    let (_, project) = ask(&server, "/api/v1/projects", &json!({ "repo_path": repo })).await;
    let wanted = |more: Value| {
        let mut body = json!({ "project_id": project["id"], "prompt": "x", "model": "script:default" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (more, field) in [
        (json!({ "provider": "moon" }), "provider"),
        (json!({ "resources": { "memory_gb": 4096.0 } }), "resources.memory_gb"),
        (json!({ "resources": { "cpu": -1 } }), "resources.cpu"),
        (json!({ "timeout_seconds": 0 }), "timeout_seconds"),
        (json!({ "isolation": "perfect" }), "isolation"),
    ] {
        let (status, problem) = ask(&server, "/api/v1/sandboxes", &wanted(more)).await;
        assert_eq!(status, 422, "{problem}");
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    assert_eq!(get(&server, "/api/v1/sandboxes").await["sandboxes"], json!([]));
    let run = |more: &[&str]| {
        let mut command = sunaba(server.data.path());
        Ran::of(
            command
                .args(["run", "--repo"])
                .arg(&repo)
                .args(["--model", "script:default"])
                .args(more)
                .arg("x"),
        )
    };
    let unknown = run(&["--provider", "moon"]);
    unknown.expect_code(1);
    assert!(unknown.stderr.contains("provider: must be one of"), "{}", unknown.stderr);
    let impossible = run(&["--memory", "4096"]);
    assert!(impossible.expect_code(1).stderr.contains("resources.memory_gb"), "{}", impossible.stderr);
    run(&["--isolation", "perfect"]).expect_code(2);
    run(&["--timeout", "soon"]).expect_code(2);
    run(&["--egress", "everything"]).expect_code(2);
    assert!(sandbox_directories(server.data.path()).is_empty());
}

#[tokio::test]
async fn a_repository_that_cannot_be_cloned_fails_with_what_to_do() {
    let server = Server::start(&[]);
    let address = json!({ "repo_url": "http://127.0.0.1:9/nothing.git", "default_branch": "main" });
    let (_, project) = ask(&server, "/api/v1/projects", &address).await;
    let body = json!({ "project_id": project["id"], "prompt": "x", "model": "script:default" });
    let (status, sandbox) = ask(&server, "/api/v1/sandboxes", &body).await;
    assert_eq!(status, 201, "{sandbox}");
    let row = until_state(&server, sandbox["id"].as_str().unwrap(), "failed").await;
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be fetched") && reason.contains("check the address"), "{reason}");
    // What was made meanwhile goes after the state is known.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !sandbox_directories(server.data.path()).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", sandbox_directories(server.data.path()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_full_disk_holds_new_sandboxes_back_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("full.yaml");
    std::fs::write(&file, "orchestrator: {disk_free_gb: 1000000}\n").unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    let repo = repository(server.data.path());
    let (_, project) = ask(&server, "/api/v1/projects", &json!({ "repo_path": repo })).await;
    let body = json!({ "project_id": project["id"], "prompt": "x", "model": "script:default" });
    let (_, sandbox) = ask(&server, "/api/v1/sandboxes", &body).await;
    let id = sandbox["id"].as_str().unwrap();
    let path = format!("/api/v1/sandboxes/{id}/events?event_type=sandbox.waiting");
    let started = Instant::now();
    let waiting = loop {
        let page = get(&server, &path).await;
        if page["total_count"] == 1 {
            break page["events"][0]["event_data"]["reason"].as_str().unwrap().to_owned();
        }
        assert!(started.elapsed() < DEADLINE, "{page}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(waiting.contains("orchestrator.disk_free_gb"), "{waiting}");
    assert_eq!(get(&server, &format!("/api/v1/sandboxes/{id}")).await["state"], "pending");
    let ready = http().get(format!("{}/readyz", server.url)).send().await.unwrap();
    assert!(ready.status().is_success(), "a full disk is no reason to be unready");
    server.run(&["stop", id]).expect_code(0);
    assert_eq!(server.log().matches("no sandbox is started").count(), 1, "said once: {}", server.log());
}

#[test]
fn another_secret_key_stops_the_server_with_words() {
    let mut server = Server::start(&[]);
    server.terminate();
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let start = |key: &str| {
        let mut command = sunaba(server.data.path());
        Ran::of(command.args(["serve", "--listen", "127.0.0.1:0"]).env("SUNABA_SECRET_KEY", key))
    };
    let wrong = start(other);
    wrong.expect_code(1);
    assert!(wrong.stderr.contains("secret key is not the one that sealed"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains(other));
    let malformed = start("short");
    assert!(malformed.expect_code(1).stderr.contains("openssl rand -base64 32"), "{}", malformed.stderr);
}

#[test]
fn a_host_without_bubblewrap_is_told_by_the_doctor() {
    let data = tempfile::tempdir().unwrap();
    let words = Ran::of(sunaba(data.path()).arg("doctor"));
    assert!(
        words.stdout.contains("this host") && words.stdout.contains("provider local"),
        "{}",
        words.stdout
    );
    if !nix::unistd::geteuid().is_root() {
        println!("left out: only root can hide bubblewrap from one program");
        return;
    }
    // A mount namespace of its own, in which an empty file lies over the program.
    let empty = data.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let script = "mount --bind \"$1\" /usr/bin/bwrap && exec \"$2\" doctor --json";
    let mut hidden = std::process::Command::new("unshare");
    hidden.args(["--mount", "sh", "-c", script, "sh"]).arg(&empty).arg(env!("CARGO_BIN_EXE_sunaba"));
    hidden.env("SUNABA_DATA", data.path().join("none"));
    let ran = Ran::of(&mut hidden);
    ran.expect_code(1);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["ok"], false, "{found}");
    let findings = found["providers"][0]["findings"].as_array().unwrap();
    let bubblewrap = findings.iter().find(|finding| finding["name"] == "bubblewrap").unwrap();
    assert_eq!(bubblewrap["status"], "missing", "{bubblewrap}");
    assert!(bubblewrap["remedy"].is_string(), "{bubblewrap}");
    assert!(!data.path().join("none").exists(), "a look leaves nothing behind");
}

#[test]
fn a_host_that_forbids_user_namespaces_is_told_by_the_doctor() {
    let data = tempfile::tempdir().unwrap();
    // The bound holds only below the namespace in which it is written.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$1\" doctor --json";
    let mut bounded = std::process::Command::new("unshare");
    bounded.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(env!("CARGO_BIN_EXE_sunaba"));
    bounded.env("SUNABA_DATA", data.path().join("none"));
    let ran = Ran::of(&mut bounded);
    let Ok(found) = serde_json::from_str::<Value>(&ran.stdout) else {
        println!("left out: this host lets nobody bound its namespaces: {}", ran.stderr);
        return;
    };
    ran.expect_code(1);
    let findings = found["providers"][0]["findings"].as_array().unwrap();
    let namespaces = findings.iter().find(|finding| finding["name"] == "user namespaces").unwrap();
    assert_eq!(namespaces["status"], "missing", "{namespaces}");
    assert!(namespaces["remedy"].as_str().unwrap().contains("max_user_namespaces"), "{namespaces}");
}

#[test]
fn a_secret_is_taken_from_standard_input_and_never_shown() {
    let server = Server::start(&[]);
    let repo = repository(server.data.path());
    let repo = repo.to_str().unwrap();
    Ran::of(sunaba(server.data.path()).args(["run", "-d", "--repo", repo, "--model", "script:default", "x"]))
        .expect_code(0);
    let mut set = sunaba(server.data.path());
    let set = Ran::with_input(set.args(["project", "secret", "set", repo, "GIT_TOKEN"]), "hush-hush\n");
    set.expect_code(0);
    let list = server.run(&["project", "secret", "list", repo]);
    assert_eq!(list.expect_code(0).stdout, "GIT_TOKEN\n");
    let show = server.run(&["project", "show", repo]);
    assert!(show.expect_code(0).stdout.contains("secrets           GIT_TOKEN"), "{}", show.stdout);
    for said in [&set.stdout, &set.stderr, &show.stdout, &server.log()] {
        assert!(!said.contains("hush-hush"), "{said}");
    }
    server.run(&["project", "secret", "rm", repo, "GIT_TOKEN"]).expect_code(0);
    server.run(&["project", "secret", "rm", repo, "GIT_TOKEN"]).expect_code(1);
    let open = server.json(&["project", "egress", repo, "registries", "--allow", "example.org"]);
    assert_eq!(open["settings"]["egress"], json!({ "preset": "registries", "allow": ["example.org"] }));
    let set =
        server.json(&["project", "set", repo, "setup_command", "make deps", "resources.memory_gb", "2"]);
    assert_eq!(set["settings"]["setup_command"], "make deps");
    assert_eq!(set["settings"]["resources"]["memory_gb"], 2.0);
}
