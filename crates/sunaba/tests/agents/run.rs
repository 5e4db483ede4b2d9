//! One sandbox at work: what its log says, what is said to it, and what becomes of it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use sunaba_types::{Clock as _, SystemClock, Timestamp};

use crate::world::World;

/// For anything that an agent does by itself on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(10);

/// A sandbox.
pub(crate) struct Run<'a> {
    pub(crate) world: &'a World,
    pub(crate) id: String,
}

/// Something that was said, and when the server had it.
pub(crate) struct Said {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
}

/// A model call as the gateway saw it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) seq: u64,
    /// Which turn of the script it was, from 1.
    pub(crate) turn: Option<u64>,
    pub(crate) arrived: Timestamp,
    pub(crate) error: Option<String>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a World, id: String) -> Self {
        Self { world, id }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/sandboxes/{}{rest}", self.id)
    }

    pub(crate) async fn get(&self, rest: &str) -> anyhow::Result<Value> {
        self.world.api.get(&self.path(rest)).await
    }

    pub(crate) async fn post(&self, rest: &str, body: &Value) -> anyhow::Result<Value> {
        self.world.api.post(&self.path(rest), body).await
    }

    /// Events of a type so far, oldest first.
    pub(crate) async fn told(&self, event_type: &str) -> anyhow::Result<Vec<Value>> {
        let page = self.get(&format!("/events?limit=500&event_type={event_type}")).await?;
        let mut events = page["events"].as_array().context("events")?.clone();
        events.reverse();
        Ok(events)
    }

    /// Waits for something that is looked for again and again.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE || self.ended().await? {
                // It may have come with the end.
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                bail!("{what} did not come\n{}", self.story().await?);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits for an event that fits.
    pub(crate) async fn until_told(
        &self,
        event_type: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let look = async || Ok(self.told(event_type).await?.into_iter().find(|event| fits(event)));
        self.until(event_type, look).await
    }

    async fn ended(&self) -> anyhow::Result<bool> {
        let state = self.get("").await?["state"].clone();
        Ok(matches!(state.as_str(), Some("completed" | "failed" | "cancelled")))
    }

    /// Waits for the end, which must be a good one; gives the whole log, checked for gaps and for its chain.
    pub(crate) async fn completed(&self) -> anyhow::Result<Vec<Value>> {
        self.over("completed").await
    }

    /// Waits for the end, which must be this; gives the whole log, checked for gaps and for its chain.
    pub(crate) async fn over(&self, wanted: &str) -> anyhow::Result<Vec<Value>> {
        let began = Instant::now();
        while !self.ended().await? {
            ensure!(began.elapsed() < PATIENCE, "it did not end\n{}", self.story().await?);
            tokio::time::sleep(POLL).await;
        }
        let state = self.get("").await?["state"].clone();
        ensure!(state == wanted, "it {state}\n{}", self.story().await?);
        self.world.api.whole_log(&self.id).await
    }

    /// Says something.
    pub(crate) async fn say(&self, message_type: &str, content: &str) -> anyhow::Result<Said> {
        let body = json!({ "content": content, "message_type": message_type });
        let queued = self.post("/messages", &body).await?;
        let id = queued["message_id"].as_str().context("message_id")?.to_owned();
        Ok(Said { at: self.fate(&id).await?.time("created_at")?, id })
    }

    /// What became of a message.
    pub(crate) async fn fate(&self, id: &str) -> anyhow::Result<Fate> {
        let history = self.get("/messages/history").await?;
        let messages = history["messages"].as_array().context("messages")?;
        let found = messages.iter().find(|message| message["id"] == id);
        found.cloned().map(Fate).with_context(|| format!("{id} is not in the history: {history}"))
    }

    /// Waits until a message is with the worker.
    pub(crate) async fn until_taken(&self, said: &Said) -> anyhow::Result<Timestamp> {
        let look = async || Ok(self.fate(&said.id).await?.time("acknowledged_at").ok());
        self.until("the hand-over of the message", look).await
    }

    /// Model calls that are over, in the order in which they arrived.
    pub(crate) async fn calls(&self) -> anyhow::Result<Vec<Call>> {
        let events = self.told("gateway.model_call").await?;
        let mut calls = events.iter().map(Call::of).collect::<anyhow::Result<Vec<_>>>()?;
        calls.sort_by_key(|call| call.arrived);
        Ok(calls)
    }

    /// Whether the gateway has a model call under way.
    pub(crate) async fn is_calling(&self) -> anyhow::Result<bool> {
        Ok(self.get("/usage").await?["model"]["reserved_usd"].as_f64().context("reserved_usd")? > 0.0)
    }

    /// Waits until the gateway has a model call under way, or none.
    pub(crate) async fn until_calling(&self) -> anyhow::Result<()> {
        self.until("a model call", async || Ok(self.is_calling().await?.then_some(()))).await
    }

    /// Where its work tree is on this machine.
    fn workspace(&self) -> anyhow::Result<PathBuf> {
        let sandboxes = self.world.data.path().join("sandboxes");
        let places = [sandboxes.join(".disks").join(&self.id), sandboxes.join(&self.id).join("disk")];
        let mut found = places.iter().map(|place| place.join("workspace"));
        found.find(|place| place.is_dir()).with_context(|| format!("no work tree in any of {places:?}"))
    }

    /// Its log as it is now.
    pub(crate) async fn log_so_far(&self) -> anyhow::Result<Vec<Value>> {
        self.world.api.whole_log(&self.id).await
    }

    /// Waits until a command has made this file, whether or not there is a server.
    pub(crate) async fn until_file(&self, name: &str) -> anyhow::Result<()> {
        let (file, began) = (self.workspace()?.join(name), Instant::now());
        while !file.exists() {
            ensure!(began.elapsed() < PATIENCE, "{} did not appear", file.display());
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Lets a command go on that waits for this file. Everybody may write to it: a command at a terminal would be asked
    /// before it takes away what is not its own.
    pub(crate) fn let_go(&self) -> anyhow::Result<Timestamp> {
        let workspace = self.workspace()?;
        let (made, file) = (workspace.join(".go"), workspace.join("go"));
        std::fs::write(&made, "").with_context(|| format!("write {}", made.display()))?;
        std::fs::set_permissions(&made, Permissions::from_mode(0o666))?;
        std::fs::rename(&made, &file)?;
        Ok(SystemClock.now())
    }

    /// A file of the branch that came out of it.
    pub(crate) async fn branch_file(&self, name: &str) -> anyhow::Result<String> {
        let row = self.get("").await?;
        let branch = row["branch_name"].as_str().context("branch_name")?;
        git(self.world.repo.path(), &["show", &format!("{branch}:{name}")])
    }

    /// Its log in short, for people who look for what went wrong.
    pub(crate) async fn story(&self) -> anyhow::Result<String> {
        let page = self.get("/events?limit=60").await?;
        let events = page["events"].as_array().context("events")?;
        let line = |event: &Value| {
            let data: String = event["event_data"].to_string().chars().take(600).collect();
            format!("  {} {} {data}", event["seq"], event["event_type"])
        };
        let lines: Vec<String> = events.iter().rev().map(line).collect();
        Ok(format!("{} of {:?}:\n{}", self.id, self.world.agent, lines.join("\n")))
    }
}

/// A message of the history.
pub(crate) struct Fate(pub(crate) Value);

impl Fate {
    pub(crate) fn time(&self, field: &str) -> anyhow::Result<Timestamp> {
        time(&self.0[field])
    }
}

impl Call {
    fn of(event: &Value) -> anyhow::Result<Self> {
        let data = &event["event_data"];
        let took = data["duration_ms"].as_u64().context("duration_ms")?;
        Ok(Self {
            seq: event["seq"].as_u64().context("seq")?,
            turn: data["script_turn"].as_u64(),
            arrived: time(&event["created_at"])? - Duration::from_millis(took),
            error: data["error"].as_str().map(str::to_owned),
        })
    }
}

/// A time as the server writes it.
pub(crate) fn time(value: &Value) -> anyhow::Result<Timestamp> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    text.parse().with_context(|| format!("{text} is no time"))
}

/// From one time to another, in milliseconds; never below 0.
pub(crate) fn millis(from: Timestamp, to: Timestamp) -> u128 {
    Duration::try_from(to.duration_since(from)).unwrap_or_default().as_millis()
}

/// Runs git, which must succeed.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
