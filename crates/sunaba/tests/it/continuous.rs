//! Continuous mode in a real sandbox behind the real server: the agent's word is checked against what is seen.

use serde_json::{Value, json};

use crate::support::{Ran, Server, git, http, repository, sunaba};

/// It says that it is done with nothing committed, then with nothing pushed, and then it is.
const SAYS_TOO_EARLY: &str = "
- tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: TASK_COMPLETE
- expect:
    - request_contains: a.txt
  tools:
    - shell: git add a.txt && git commit -qm done
- text: TASK_COMPLETE
- tools:
    - shell: git push -q origin HEAD
- text: TASK_COMPLETE
";

/// It only ever says so.
const ONLY_SAYS: &str = "
- text: TASK_COMPLETE
- text: TASK_COMPLETE
- text: TASK_COMPLETE
";

struct Place {
    server: Server,
    repo: std::path::PathBuf,
}

impl Place {
    fn new() -> Self {
        let server = Server::start(&[]);
        let repo = repository(server.data.path());
        Self { server, repo }
    }

    fn run(&self, script: &str, more: &[&str]) -> Ran {
        let file = self.server.data.path().join("script.yaml");
        std::fs::write(&file, script).unwrap();
        let mut run = sunaba(self.server.data.path());
        run.args(["run", "--continuous", "--egress", "none", "--repo"]).arg(&self.repo);
        run.args(["--model", &format!("script:{}", file.display())]).args(more).arg("Write a.txt");
        Ran::of(&mut run)
    }

    async fn told(&self, event_type: &str) -> Vec<Value> {
        let shown = self.server.json(&["show", "last"]);
        let id = shown["sandbox"]["id"].as_str().unwrap();
        let url = format!("{}/api/v1/sandboxes/{id}/events?event_type={event_type}", self.server.url);
        let request = http().get(url).bearer_auth(self.server.token());
        let page: Value = request.send().await.unwrap().json().await.unwrap();
        page["events"].as_array().unwrap().iter().rev().map(|event| event["event_data"].clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_done_when_it_is_seen_to_be_done() {
    let place = Place::new();
    let ran = place.run(SAYS_TOO_EARLY, &[]);
    ran.expect_code(0);
    assert!(ran.stdout.contains("it says that it is done, and it is not"), "{}", ran.stdout);
    let looks = place.told("iteration.validation").await;
    let passed: Vec<&Value> = looks.iter().map(|look| &look["validation_passed"]).collect();
    assert_eq!(passed, [&json!(false), &json!(false), &json!(true)], "{looks:?}");
    let shown = place.server.json(&["show", "last"]);
    assert_eq!(shown["task"]["status"], "completed");
    let branch = shown["sandbox"]["branch_name"].as_str().unwrap();
    assert_eq!(git(&place.repo, &["show", &format!("{branch}:a.txt")]), "a\n");
    assert_eq!(git(&place.repo, &["rev-list", "--count", &format!("main..{branch}")]), "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_only_says_so_fails_at_the_limit() {
    let place = Place::new();
    let ran = place.run(ONLY_SAYS, &["--env", "MAX_ITERATIONS=3"]);
    ran.expect_code(1);
    let ended = place.told("continuous.completed").await;
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(
        (&ended[0]["stop_reason"], &ended[0]["validation_passed"]),
        (&json!("max_iterations"), &json!(false))
    );
    let shown = place.server.json(&["show", "last"]);
    assert_eq!(shown["task"]["status"], "failed", "{shown}");
}
