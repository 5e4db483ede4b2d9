//! What a node knows of the others while the database does not answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_nodes::{Nodes, Where};
use sunaba_store::{NewProject, Store};
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::{Postgres, Proxy, eventually};
use sunaba_types::{Clock as _, NodeId, NodeReport, ProjectSettings, Role, SystemClock};

/// A database, and a line to it that can be held.
struct World {
    store: Arc<dyn Store>,
    line: Proxy,
    /// The same database over a line of its own.
    beside: Arc<dyn Store>,
}

impl World {
    async fn start() -> Self {
        let postgres = Postgres::shared();
        let url = postgres.database();
        let line = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()))).await;
        let held = url.replace(&format!(":{}/", postgres.port()), &format!(":{}/", line.address().port()));
        let open = async |url: String| PostgresStore::open(Options::new(url, Arc::new(SystemClock))).await;
        Self { beside: open(url).await.unwrap(), store: open(held).await.unwrap(), line }
    }

    async fn enter(&self, id: &NodeId) {
        let report = NodeReport {
            id: id.clone(),
            instance: "i".into(),
            host: "h".into(),
            address: format!("http://{id}"),
            version: "1".into(),
            roles: Role::ALL.to_vec(),
            providers: vec!["local".into()],
            max_sandboxes: 10,
            loops: json!({}),
            started_at: SystemClock.now(),
        };
        self.beside.enter_node(&report).await.unwrap();
    }

    async fn project(&self) -> sunaba_types::ProjectId {
        let project = NewProject {
            name: "p".into(),
            repo_path: None,
            repo_url: Some("https://git.example/p".into()),
            default_branch: "main".into(),
            settings: ProjectSettings::default(),
        };
        self.beside.ensure_project(project).await.unwrap().id
    }
}

/// What is asked for must be there at once: whoever waits for the database would hold up everybody who asks.
async fn at_once<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(Duration::from_millis(500), answer).await;
    answer.unwrap_or_else(|_| panic!("{what} waited for the database"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_database_holds_up_no_reader_of_the_list() {
    let world = World::start().await;
    let [me, other, late] = ["a", "b", "c"].map(|id| NodeId::parse(id).unwrap());
    world.enter(&me).await;
    world.enter(&other).await;
    let nodes = Nodes::new(me, Arc::clone(&world.store), "token".into()).unwrap();
    let project = world.project().await;
    world.beside.ensure_home(&project, &other).await.unwrap();
    assert_eq!(nodes.home_of(&project).await.unwrap(), Where::There(other.clone()));
    assert_eq!(nodes.list().await.unwrap().len(), 2);

    world.line.hold();
    // Longer than what was read counts as fresh.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(at_once("the list", nodes.list()).await.unwrap().len(), 2);
        assert_eq!(at_once("an address", nodes.address_of(&other)).await.unwrap(), "http://b");
        assert_eq!(at_once("a home", nodes.home_of(&project)).await.unwrap(), Where::There(other.clone()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.line.forward();
    world.enter(&late).await;
    eventually("the list is new again", async || nodes.list().await.unwrap().len() == 3).await;
}

/// A node that came a moment ago, or came back, is not taken for gone by what was known before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_judged_by_an_old_list() {
    let world = World::start().await;
    let [me, late] = ["a", "b"].map(|id| NodeId::parse(id).unwrap());
    world.enter(&me).await;
    let nodes = Nodes::new(me, Arc::clone(&world.store), "token".into()).unwrap();
    assert_eq!(nodes.list().await.unwrap().len(), 1);
    world.enter(&late).await;
    // A list of a moment ago is believed for that moment; an older one is looked at again before it is.
    tokio::time::sleep(Duration::from_millis(2200)).await;
    assert_eq!(nodes.address_of(&late).await.unwrap(), "http://b");
}
