//! The image of `deploy/Dockerfile`: its last stage is built as it stands, on the image of the tests, and run.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, ExecConfig, HealthConfig, HealthStatusEnum, HostConfig};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateContainerOptions, InspectContainerOptions, RemoveContainerOptionsBuilder,
    RemoveImageOptions, RestartContainerOptionsBuilder, StartContainerOptions,
};
use futures::StreamExt as _;

use crate::daemon::{TestDaemon, worker_program};
use crate::deploy::read;
use crate::docker_kit::until;
use crate::support::{git, repository};

const TOOLCHAIN: &str = include_str!("../../../../rust-toolchain.toml");
/// What the image's own packages bring, and the image of the tests has not.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Checks of health come this often, so that nobody waits for them.
const HEALTH_EVERY_NS: i64 = 300_000_000;

/// The last stage, with the program from the build's context in place of the stage that compiles it.
fn runtime_stage() -> String {
    let whole = read("Dockerfile");
    let (_, stage) = whole.split_once("FROM ${BASE} AS runtime\n").unwrap();
    let copy = "COPY --from=build /out/ ";
    assert_eq!(stage.matches(copy).count(), 1);
    format!("ARG BASE\nFROM ${{BASE}} AS runtime\n{}", stage.replace(copy, "COPY out/ "))
}

#[test]
fn the_stage_that_compiles_has_the_project_s_toolchain() {
    let channel =
        TOOLCHAIN.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(read("Dockerfile").contains(&format!("FROM rust:{channel}-")), "{channel}");
}

/// A built image, and a container of it.
struct Image {
    docker: Docker,
    name: String,
}

impl Image {
    async fn build(daemon: &TestDaemon) -> Self {
        let docker = Docker::connect_with_host(&daemon.host).unwrap().negotiate_version().await.unwrap();
        let name = format!("sunaba-image-{}", uuid::Uuid::new_v4().simple());
        let context = tempfile::tempdir().unwrap();
        std::fs::create_dir(context.path().join("out")).unwrap();
        std::fs::write(context.path().join("Dockerfile"), runtime_stage()).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_sunaba"), context.path().join("out/sunaba")).unwrap();
        // A released program carries it.
        std::fs::copy(worker_program(), context.path().join("out/sunaba-worker")).unwrap();
        let tar =
            Command::new("tar").arg("-C").arg(context.path()).args(["-c", "."]).output().unwrap().stdout;
        let arguments = HashMap::from([("BASE", daemon.image.as_str())]);
        let options = BuildImageOptionsBuilder::new().t(&name).rm(true).buildargs(&arguments).build();
        let tar = bollard::body_full(tar.into());
        let steps: Vec<_> = docker.build_image(options, None, Some(tar)).collect().await;
        for step in steps {
            let step = step.unwrap();
            assert!(step.error_detail.is_none(), "{step:?}");
        }
        Self { docker, name }
    }

    async fn start(&self, body: ContainerCreateBody, mut host: HostConfig) -> String {
        host.network_mode = Some("none".to_owned());
        host.binds.get_or_insert_default().push(format!("{CERTIFICATES}:{CERTIFICATES}:ro"));
        let health = HealthConfig { interval: Some(HEALTH_EVERY_NS), ..HealthConfig::default() };
        let body = ContainerCreateBody {
            image: Some(self.name.clone()),
            host_config: Some(host),
            healthcheck: Some(health),
            ..body
        };
        let id = self.docker.create_container(None::<CreateContainerOptions>, body).await.unwrap().id;
        self.docker.start_container(&id, None::<StartContainerOptions>).await.unwrap();
        id
    }

    /// Until the image's own check says that the server is ready.
    async fn until_healthy(&self, container: &str) {
        let healthy = async || {
            let seen =
                self.docker.inspect_container(container, None::<InspectContainerOptions>).await.unwrap();
            seen.state.and_then(|state| state.health).and_then(|health| health.status)
                == Some(HealthStatusEnum::HEALTHY)
        };
        until("a healthy server", String::new, healthy).await;
    }

    /// What a command inside says.
    async fn exec(&self, container: &str, words: &[&str]) -> String {
        let config = ExecConfig {
            cmd: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(container, config).await.unwrap();
        let started = self.docker.start_exec(&exec.id, None::<StartExecOptions>).await.unwrap();
        let StartExecResults::Attached { mut output, .. } = started else { panic!("not attached") };
        let mut said = String::new();
        while let Some(piece) = output.next().await {
            said.push_str(&LogOutput::to_string(&piece.unwrap()));
        }
        said
    }

    async fn remove(self, containers: &[String]) {
        for container in containers {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            self.docker.remove_container(container, Some(options)).await.unwrap();
        }
        self.docker.remove_image(&self.name, None::<RemoveImageOptions>, None).await.unwrap();
    }
}

#[tokio::test]
async fn the_image_serves_as_an_ordinary_user() {
    let Some(daemon) = TestDaemon::find("the server's image as an ordinary user") else { return };
    let image = Image::build(&daemon).await;
    let own = HashMap::from([("/var/lib/sunaba".to_owned(), "mode=0700,uid=10001,gid=10001".to_owned())]);
    let body = ContainerCreateBody {
        user: Some("10001:10001".to_owned()),
        env: Some(vec!["SANDBOX_PROVIDER=external".to_owned()]),
        ..ContainerCreateBody::default()
    };
    let id = image.start(body, HostConfig { tmpfs: Some(own), ..HostConfig::default() }).await;
    image.until_healthy(&id).await;
    let version = image.exec(&id, &["sunaba", "--version"]).await;
    assert_eq!(version.trim(), format!("sunaba {}", env!("CARGO_PKG_VERSION")));
    image.remove(&[id]).await;
}

const SCRIPT: &str = "
- text: I count.
  tools:
    - shell: for i in $(seq 1 12); do echo tick $i; sleep 0.25; done
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

/// The data directory at the same path outside and inside, and the daemon's socket; the server's container is
/// restarted in the middle.
#[tokio::test]
async fn a_run_through_the_mounted_socket_outlives_the_server_s_container() {
    let Some(daemon) = TestDaemon::find("the server's image with the daemon's socket") else { return };
    let image = Image::build(&daemon).await;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let repo = repository(dir.path());
    std::fs::write(dir.path().join("script.yaml"), SCRIPT).unwrap();
    // Bound into sandboxes from the host, as a released program's own is from its data directory.
    std::fs::copy(worker_program(), dir.path().join("worker")).unwrap();
    let socket = daemon.host.strip_prefix("unix://").unwrap();
    let host = HostConfig {
        binds: Some(vec![format!("{place}:{place}"), format!("{socket}:/var/run/docker.sock")]),
        ..HostConfig::default()
    };
    let env = [
        format!("SUNABA_DATA={place}/data"),
        format!("SUNABA_WORKER={place}/worker"),
        "SANDBOX_PROVIDER=docker".to_owned(),
        "FOLLOW_UP_MINUTES=0".to_owned(),
        format!("SANDBOX_IMAGE={}", daemon.image),
    ];
    let body = ContainerCreateBody { env: Some(env.to_vec()), ..ContainerCreateBody::default() };
    let id = image.start(body, host).await;
    image.until_healthy(&id).await;
    let model = format!("script:{place}/script.yaml");
    let run = ["sunaba", "run", "--detach", "--egress", "none", "--model", &model, "--repo"];
    let said = image.exec(&id, &[&run[..], &[repo.to_str().unwrap(), "Count"]].concat()).await;
    assert!(said.contains("sbx_"), "{said}");
    let counting = async || image.exec(&id, &["sunaba", "logs", "last"]).await.contains("tick 2");
    until("its words", String::new, counting).await;
    let quickly = RestartContainerOptionsBuilder::new().t(15).build();
    image.docker.restart_container(&id, Some(quickly)).await.unwrap();
    image.until_healthy(&id).await;
    let story = image.exec(&id, &["sunaba", "attach", "last"]).await;
    assert!(story.contains("✔ completed") && story.contains("tick 12"), "{story}");
    assert!(branch_has_the_file(&repo), "{}", git(&repo, &["branch", "--all"]));
    until_no_sandbox(&image, place).await;
    image.remove(&[id]).await;
}

fn branch_has_the_file(repo: &Path) -> bool {
    let branches = git(repo, &["branch", "--format=%(refname:short)"]);
    branches
        .lines()
        .filter(|name| *name != "main")
        .any(|name| git(repo, &["show", &format!("{name}:a.txt")]) == "a\n")
}

/// Its container is removed by the server, and its directory with it.
async fn until_no_sandbox(image: &Image, place: &str) {
    let containers = Path::new(place).join("data/containers");
    let gone = async || {
        let mut left = std::fs::read_dir(&containers).unwrap().flatten();
        !left.any(|entry| entry.path().is_dir())
    };
    until("the end of the sandbox", || image.name.clone(), gone).await;
}
