//! Whole runs in containers on this host, through the real server and a real daemon; and what people meet
//! who have not set it up yet.

use crate::daemon::TestDaemon;
use crate::docker_kit::World;
use crate::support::{Ran, repository, sunaba};

fn config(daemon: &TestDaemon) -> String {
    format!(
        "listen: 127.0.0.1:0\ndocker: {{host: \"{}\"}}\nsandbox: {{image: {}}}\n",
        daemon.host, daemon.image
    )
}

#[tokio::test]
async fn a_whole_run_in_a_container_on_this_host() {
    let Some(daemon) = TestDaemon::find("a whole run in a container") else { return };
    let world = World::start(&daemon, &config(&daemon)).await;
    let id = world.create(&["--provider", "docker"]);
    world.until_said(&id, "tick 2\n").await;
    assert_eq!(world.containers(&id).await, 1, "it is a container");
    world.server.run(&["send", &id, "please also b.txt"]).expect_code(0);
    world.expect_done(&id).await;
    world.until_gone(&id).await;
}

#[tokio::test]
async fn a_container_s_run_outlives_a_killed_server() {
    let Some(daemon) = TestDaemon::find("a container that outlives its server") else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let config = config(&daemon).replace("127.0.0.1:0", &address);
    let mut world = World::start(&daemon, &config).await;
    let id = world.create(&["--provider", "docker"]);
    world.until_said(&id, "tick 2\n").await;
    // It may be on its way to the worker when the server is killed.
    world.server.run(&["send", &id, "please also b.txt"]).expect_code(0);
    world.kill_and_restart();
    world.expect_done(&id).await;
    world.until_gone(&id).await;
}

#[tokio::test]
async fn an_image_that_is_not_there_fails_the_run_with_what_to_do() {
    let Some(daemon) = TestDaemon::find("a run with a missing image") else { return };
    let config =
        config(&daemon).replace(&format!("image: {}", daemon.image), "image: \"127.0.0.1:9/none:1\"");
    let world = World::start(&daemon, &config).await;
    let id = world.create(&["--provider", "docker"]);
    let row = world.until_state(&id, &["failed", "completed"]).await;
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("has no image 127.0.0.1:9/none:1"), "{reason}");
    assert!(reason.contains("pull it there or set SANDBOX_IMAGE"), "{reason}");
    world.until_gone(&id).await;
}

/// Needs no daemon: there is none.
#[test]
fn a_socket_that_nobody_answers_fails_the_run_with_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}/nobody.sock", data.path().display());
    std::fs::write(data.path().join("sunaba.yaml"), "listen: 127.0.0.1:0\n").unwrap();
    let _background = crate::end_to_end::Background(data.path());
    let repo = repository(data.path());
    let ran =
        Ran::of(sunaba(data.path()).env("DOCKER_HOST", &socket).arg("run").arg("--repo").arg(&repo).args([
            "--provider",
            "docker",
            "--model",
            "script:default",
            "Do it",
        ]));
    ran.expect_code(1);
    assert!(
        ran.stderr.contains("missing: container daemon") && ran.stderr.contains("`sunaba doctor`"),
        "{ran:?}"
    );
    let doctor = Ran::of(sunaba(data.path()).env("DOCKER_HOST", &socket).arg("doctor"));
    for words in [&*socket, "does not answer", "start it, set DOCKER_HOST, or let this user use its socket"] {
        assert!(doctor.stdout.contains(words), "no {words:?} in {}", doctor.stdout);
    }
}
