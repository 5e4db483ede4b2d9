//! Real sandboxes, in which a scripted agent runs commands.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::decoys::{Facts, USER, is_root};
use crate::world::World;

/// How long the attempts of one sandbox may take.
const PATIENCE: Duration = Duration::from_secs(240);

impl World {
    /// A project of a new repository that holds the attempts.
    pub(crate) async fn project(&self, name: &str, settings: &Value) -> String {
        self.project_with(name, settings, &[]).await
    }

    /// The same with more files.
    pub(crate) async fn project_with(&self, name: &str, settings: &Value, files: &[(&str, &str)]) -> String {
        let repo = self.repository(name, files);
        let made = self.post("/api/v1/projects", &json!({ "repo_path": repo, "settings": settings })).await;
        made["id"].as_str().unwrap().to_owned()
    }

    fn repository(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let repo = self.decoys.path(name);
        std::fs::create_dir(&repo).unwrap();
        crate::decoys::write_scripts(&repo.join("escape"));
        for (name, text) in files {
            std::fs::write(repo.join(name), text).unwrap();
        }
        let script = "set -e; git init -q -b main .; git add .; git -c user.name=x -c user.email=x@x.invalid commit -q -m start";
        let status = Command::new("bash").args(["-c", script]).current_dir(&repo).status().unwrap();
        assert!(status.success());
        if is_root() && !self.server_is_root() {
            let owner = format!("{USER}:{USER}");
            assert!(Command::new("chown").args(["-R", &owner]).arg(&repo).status().unwrap().success());
        }
        repo
    }

    /// Starts a sandbox whose agent runs these commands one after the other.
    pub(crate) async fn sandbox(&self, project: &str, commands: &[String], resources: &Value) -> String {
        let mut turns: Vec<Value> = commands
            .iter()
            .map(|command| json!({ "tools": [{ "shell": { "command": command, "timeout_ms": 500_000 } }] }))
            .collect();
        turns.push(json!({ "text": "Done." }));
        // JSON is YAML.
        let script = serde_json::to_vec(&turns).unwrap();
        let request =
            self.client.post(format!("{}/api/v1/blobs", self.url)).bearer_auth(&self.admin).body(script);
        let blob: Value = request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap();
        let model = format!("script:{}", blob["hash"].as_str().unwrap());
        let mut body = json!({ "project_id": project, "prompt": "Try it", "model": model });
        if !resources.is_null() {
            body["resources"] = resources.clone();
        }
        let id = self.post("/api/v1/sandboxes", &body).await["id"].as_str().unwrap().to_owned();
        self.started.lock().unwrap().push(id.clone());
        id
    }

    /// What the commands of a sandbox wrote so far.
    pub(crate) async fn output(&self, id: &str) -> String {
        let mut pieces = Vec::new();
        let mut before = String::new();
        loop {
            let path =
                format!("/api/v1/sandboxes/{id}/events?event_types=agent.tool_output&limit=500{before}");
            let page = self.get(&path).await;
            for event in page["events"].as_array().unwrap() {
                pieces.push(event["event_data"]["chunk"].as_str().unwrap_or_default().to_owned());
            }
            match page["next_before_seq"].as_i64() {
                Some(next) => before = format!("&before_seq={next}"),
                None => break,
            }
        }
        pieces.reverse();
        pieces.concat()
    }

    /// Waits until a sandbox wrote this, or is over; what it wrote.
    pub(crate) async fn until(&self, id: &str, word: &str) -> String {
        let started = Instant::now();
        loop {
            let state = self.state(id).await;
            let output = self.output(id).await;
            if output.contains(word) {
                return output;
            }
            let over = ["failed", "cancelled", "completed"].contains(&state.as_str());
            if over || output.contains("MISSING ") || started.elapsed() > PATIENCE {
                let events = self.get(&format!("/api/v1/sandboxes/{id}/events?limit=20")).await;
                panic!("the sandbox is {state} and never said {word}:\n{output}\n{events:#}\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        self.get(&format!("/api/v1/sandboxes/{id}")).await["state"].as_str().unwrap().to_owned()
    }

    /// Waits until a sandbox is in a final state; which one.
    pub(crate) async fn until_over(&self, id: &str) -> String {
        let started = Instant::now();
        loop {
            let state = self.state(id).await;
            if ["failed", "cancelled", "completed"].contains(&state.as_str()) {
                return state;
            }
            assert!(started.elapsed() < PATIENCE, "the sandbox stays {state}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Facts as the beginning of a shell command.
pub(crate) fn exports(facts: &Facts) -> String {
    facts.iter().map(|(name, value)| format!("export {name}='{value}'; ")).collect()
}
