//! Whole runs in containers as on another machine: volumes, a worker that was sent, and nothing but a tunnel to
//! the server's public address.

use bollard::models::{ContainerCreateBody, HostConfig, VolumeCreateRequest};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions, RemoveVolumeOptions};

use crate::daemon::{TestDaemon, left_out};
use crate::docker_kit::{Network, World};
use crate::docker_tls::Terminator;

fn config(daemon: &TestDaemon, network: &Network, listen: &str, public_url: &str) -> String {
    format!(
        "listen: {listen}\npublic_url: {public_url}\n\
         docker: {{host: \"{}\", remote: true, network: {}}}\n\
         sandbox: {{provider: docker, image: {}, isolation: any}}\n",
        daemon.host, network.name, daemon.image
    )
}

async fn start(daemon: &TestDaemon, network: &Network) -> World {
    let address = network.free_address();
    World::start(daemon, &config(daemon, network, &address, &format!("http://{address}"))).await
}

/// A volume as an older server left it.
async fn old_worker(world: &World) -> String {
    let name = format!("sunaba-worker-{}", uuid::Uuid::new_v4().simple());
    let labels = Some([("io.sunaba.worker".to_owned(), name.clone())].into());
    let volume = VolumeCreateRequest { name: Some(name.clone()), labels, ..VolumeCreateRequest::default() };
    world.docker.create_volume(volume).await.unwrap();
    name
}

/// A container that uses a volume; its id.
async fn container_with(world: &World, daemon: &TestDaemon, volume: &str) -> String {
    let body = ContainerCreateBody {
        image: Some(daemon.image.clone()),
        cmd: Some(vec!["true".to_owned()]),
        host_config: Some(HostConfig {
            binds: Some(vec![format!("{volume}:/opt/sunaba:ro")]),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    world.docker.create_container(None::<CreateContainerOptions>, body).await.unwrap().id
}

#[tokio::test]
async fn a_whole_run_elsewhere_through_the_tunnel() {
    let Some(daemon) = TestDaemon::find("a whole run on another machine") else { return };
    let network = Network::make(&daemon).await;
    let world = start(&daemon, &network).await;
    let [unused, used] = [old_worker(&world).await, old_worker(&world).await];
    let user = container_with(&world, &daemon, &used).await;

    let id = world.create(&[]);
    world.until_said(&id, "tick 2\n").await;
    world.server.run(&["send", &id, "please also b.txt"]).expect_code(0);
    world.expect_done(&id).await;
    world.until_gone(&id).await;
    let volumes = world.volume_names().await;
    assert!(!volumes.contains(&unused), "a worker that nobody sends or uses any more is gone: {volumes:?}");
    let workers = volumes.iter().filter(|name| name.starts_with("sunaba-worker-"));
    assert!(volumes.contains(&used), "one that a container has stays: {volumes:?}");
    assert!(workers.count() >= 2, "the one that is sent now stays: {volumes:?}");
    world.docker.remove_container(&user, None::<RemoveContainerOptions>).await.unwrap();
    world.docker.remove_volume(&used, None::<RemoveVolumeOptions>).await.unwrap();
    drop(world);
    network.remove().await;
}

#[tokio::test]
async fn a_run_elsewhere_outlives_a_killed_server() {
    let Some(daemon) = TestDaemon::find("a run on another machine that outlives its server") else { return };
    let network = Network::make(&daemon).await;
    let mut world = start(&daemon, &network).await;
    let id = world.create(&[]);
    world.until_said(&id, "tick 2\n").await;
    world.kill_and_restart();
    world.server.run(&["send", &id, "please also b.txt"]).expect_code(0);
    world.expect_done(&id).await;
    world.until_gone(&id).await;
    drop(world);
    network.remove().await;
}

#[tokio::test]
async fn a_whole_run_elsewhere_over_https_with_a_private_authority() {
    let Some(daemon) = TestDaemon::find("a tunnel over https") else { return };
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        left_out("a tunnel over https", "openssl is not installed");
        return;
    }
    let network = Network::make(&daemon).await;
    let dir = tempfile::tempdir().unwrap();
    let terminator = Terminator::start(&network.gateway, dir.path()).await;
    let config = config(&daemon, &network, "127.0.0.1:0", &terminator.url);
    let trusting = format!("{config}public_url_ca: {}\n", dir.path().join("ca.pem").display());
    let world = World::start(&daemon, &trusting).await;
    terminator.lead_to(&world.server.url);
    let id = world.create(&[]);
    world.until_said(&id, "tick 2\n").await;
    world.server.run(&["send", &id, "please also b.txt"]).expect_code(0);
    world.expect_done(&id).await;
    world.until_gone(&id).await;
    drop(world);

    // The same without the authority: what it says names the way out.
    let world = World::start(&daemon, &config).await;
    let id = world.create(&[]);
    let row = world.until_state(&id, &["failed", "completed"]).await;
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("certificate") && reason.contains("public_url_ca"), "{reason}");
    world.until_gone(&id).await;
    drop(world);
    network.remove().await;
}

#[tokio::test]
async fn a_public_address_that_leads_nowhere_fails_the_run_with_what_to_do() {
    let Some(daemon) = TestDaemon::find("a wrong public address") else { return };
    let network = Network::make(&daemon).await;
    // Nobody listens there.
    let wrong = format!("http://{}", network.free_address());
    let world = World::start(&daemon, &config(&daemon, &network, "127.0.0.1:0", &wrong)).await;
    let id = world.create(&[]);
    let row = world.until_state(&id, &["failed", "completed"]).await;
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("cannot reach this server at {wrong}")), "{reason}");
    assert!(reason.contains("no connection") && reason.contains("--public-url"), "{reason}");
    world.until_gone(&id).await;
    drop(world);
    network.remove().await;
}

#[tokio::test]
async fn a_network_that_the_daemon_has_not_is_named() {
    let Some(daemon) = TestDaemon::find("a missing network") else { return };
    let config = format!(
        "listen: 127.0.0.1:0\npublic_url: http://127.0.0.1:9\n\
         docker: {{host: \"{}\", remote: true, network: not-there}}\n\
         sandbox: {{provider: docker, image: {}, isolation: any}}\n",
        daemon.host, daemon.image
    );
    let world = World::start(&daemon, &config).await;
    let id = world.create(&[]);
    let row = world.until_state(&id, &["failed", "completed"]).await;
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("has no network not-there") && reason.contains("docker.network"), "{reason}");
    world.until_gone(&id).await;
}
