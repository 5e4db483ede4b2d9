//! What tests with a container daemon share: a server that uses it, what the daemon holds, a network of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{
    InspectNetworkOptions, ListContainersOptionsBuilder, ListVolumesOptions, ListVolumesOptionsBuilder,
};
use serde_json::Value;

use crate::daemon::TestDaemon;
use crate::support::{Server, git, http, repository, sunaba};

/// Containers share two cores with every other test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Counts, and then does what it was told meanwhile.
pub(crate) const COUNT: &str = "
- text: I count first.
  tools:
    - shell: for i in $(seq 1 30); do echo tick $i; sleep 0.1; done
- expect:
    - request_contains: please also b.txt
  tools:
    - edit: {path: README.md, old: \"# it\", new: \"# it, edited\"}
    - write: {path: b.txt, content: \"b\\n\"}
- text: Done.
";

/// A server with a container daemon, a repository and a script.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) repo: PathBuf,
    pub(crate) docker: Docker,
    script: PathBuf,
}

impl World {
    /// Starts a server with this configuration file; `listen` of the file is where it listens.
    pub(crate) async fn start(daemon: &TestDaemon, config: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let repo = repository(data.path());
        let script = data.path().join("script.yaml");
        std::fs::write(&script, COUNT).unwrap();
        std::fs::write(data.path().join("sunaba.yaml"), config).unwrap();
        let (child, url) = serve(data.path());
        let docker = Docker::connect_with_host(&daemon.host).unwrap().negotiate_version().await.unwrap();
        Self { server: Server { child, data, url }, repo, docker, script }
    }

    /// Kills the server and starts it again where it was.
    pub(crate) fn kill_and_restart(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        let (child, url) = serve(self.server.data.path());
        assert_eq!(url, self.server.url, "it listens where it did");
        self.server.child = child;
    }

    /// Asks for a sandbox; its id.
    pub(crate) fn create(&self, more: &[&str]) -> String {
        let model = format!("script:{}", self.script.display());
        let repo = self.repo.to_str().unwrap();
        let run = ["run", "--detach", "--repo", repo, "--model", &model];
        let made = self.server.json(&[&run, more, &["Count, then write"]].concat());
        made["sandbox"]["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = http().get(format!("{}{path}", self.server.url)).bearer_auth(self.server.token());
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Every event's data of a type, oldest first.
    pub(crate) async fn events(&self, id: &str, event_type: &str) -> Vec<Value> {
        let path = format!("/api/v1/sandboxes/{id}/events?limit=500&event_type={event_type}");
        let page = self.get(&path).await;
        let mut events = page["events"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        events.sort_by_key(|event| event["seq"].as_u64());
        events
    }

    /// Waits until the sandbox is in one of these states; its row.
    pub(crate) async fn until_state(&self, id: &str, wanted: &[&str]) -> Value {
        let mut row = Value::Null;
        let reached = async || {
            row = self.get(&format!("/api/v1/sandboxes/{id}")).await;
            wanted.contains(&row["state"].as_str().unwrap_or_default())
        };
        until(&format!("{id} in {wanted:?}"), || self.server.log(), reached).await;
        row
    }

    /// Waits until the sandbox's command has written this.
    pub(crate) async fn until_said(&self, id: &str, word: &str) {
        let said = async || self.output(id).await.contains(word);
        until(&format!("{word:?} from {id}"), || self.server.log(), said).await;
    }

    /// What commands of the agent wrote, as the log has it.
    pub(crate) async fn output(&self, id: &str) -> String {
        let pieces = self.events(id, "agent.tool_output").await;
        let text = |event: &Value| event["event_data"]["chunk"].as_str().unwrap_or_default().to_owned();
        pieces.iter().map(text).collect()
    }

    /// Waits until nothing of the sandbox is left at the daemon or here.
    pub(crate) async fn until_gone(&self, id: &str) {
        let directory = self.server.data.path().join("containers").join(id);
        let gone =
            async || self.containers(id).await == 0 && self.volumes(id).await == 0 && !directory.exists();
        until(&format!("the end of {id}'s container, volumes and directory"), || self.server.log(), gone)
            .await;
    }

    pub(crate) async fn containers(&self, id: &str) -> usize {
        let wanted = std::collections::HashMap::from([("label", vec![format!("io.sunaba.sandbox={id}")])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&wanted).build();
        self.docker.list_containers(Some(options)).await.unwrap().len()
    }

    async fn volumes(&self, id: &str) -> usize {
        let wanted = std::collections::HashMap::from([("label", vec![format!("io.sunaba.sandbox={id}")])]);
        let options = ListVolumesOptionsBuilder::new().filters(&wanted).build();
        self.docker.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default().len()
    }

    pub(crate) async fn volume_names(&self) -> Vec<String> {
        let listed = self.docker.list_volumes(None::<ListVolumesOptions>).await.unwrap();
        listed.volumes.unwrap_or_default().into_iter().map(|volume| volume.name).collect()
    }

    /// That the whole of [`COUNT`] was done, is in the log without a gap, and is in the user's repository.
    pub(crate) async fn expect_done(&self, id: &str) {
        let row = self.until_state(id, &["completed", "failed", "cancelled"]).await;
        assert_eq!(row["state"], "completed", "{row}\n{}", self.server.log());
        for event_type in ["agent.started", "agent.message_injected", "agent.completed"] {
            assert_eq!(self.events(id, event_type).await.len(), 1, "{event_type} of {id}");
        }
        let tools = self.events(id, "agent.tool_use").await.len();
        assert_eq!(tools, 3, "a command, an edit and a new file");
        let ticks: Vec<String> = (1..=30).map(|tick| format!("tick {tick}")).collect();
        let output = self.output(id).await;
        assert_eq!(output.lines().collect::<Vec<_>>(), ticks, "every line once and in order");
        let show = self.server.json(&["show", id]);
        assert_eq!(show["task"]["status"], "completed", "{show}");
        self.server.run(&["verify", id]).expect_code(0);
        let branch = row["branch_name"].as_str().unwrap();
        assert_eq!(git(&self.repo, &["show", &format!("{branch}:b.txt")]), "b\n");
        assert_eq!(git(&self.repo, &["show", &format!("{branch}:README.md")]), "# it, edited\n");
        assert_eq!(git(&self.repo, &["branch", "--show-current"]), "main\n");
    }
}

/// Waits until something holds, which must come; `or_else` says more if it does not.
pub(crate) async fn until(what: &str, or_else: impl Fn() -> String, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < PATIENCE, "{what} did not come\n{}", or_else());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A server on a data directory that holds its configuration.
fn serve(data: &Path) -> (Child, String) {
    let log = std::fs::File::options().create(true).append(true).open(data.join("test.log")).unwrap();
    let mut command = sunaba(data);
    command.args(["serve", "--json"]).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
        panic!("no server: {error}\n{}", std::fs::read_to_string(data.join("test.log")).unwrap())
    });
    (child, announced["url"].as_str().unwrap().to_owned())
}

/// A network of the daemon's, for containers that reach this host by nothing else.
pub(crate) struct Network {
    docker: Docker,
    pub(crate) name: String,
    /// This host's address in it.
    pub(crate) gateway: String,
}

impl Network {
    pub(crate) async fn make(daemon: &TestDaemon) -> Self {
        let docker = Docker::connect_with_host(&daemon.host).unwrap().negotiate_version().await.unwrap();
        let name = format!("sunaba-test-{}", uuid::Uuid::new_v4().simple());
        let request = NetworkCreateRequest { name: name.clone(), ..NetworkCreateRequest::default() };
        docker.create_network(request).await.unwrap();
        let seen = docker.inspect_network(&name, None::<InspectNetworkOptions>).await.unwrap();
        let gateway = seen.ipam.unwrap().config.unwrap()[0].gateway.clone().unwrap();
        Self { docker, name, gateway }
    }

    /// A port of this host that is free now.
    pub(crate) fn free_address(&self) -> String {
        let listener = std::net::TcpListener::bind((self.gateway.as_str(), 0)).unwrap();
        listener.local_addr().unwrap().to_string()
    }

    pub(crate) async fn remove(self) {
        self.docker.remove_network(&self.name).await.unwrap();
    }
}
