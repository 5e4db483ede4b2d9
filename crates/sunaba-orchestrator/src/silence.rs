//! Notices a sandbox that says nothing any more, and ends one that stays so.
//!
//! [`sunaba_engine::silence`] decides when; here it is looked, told and done. Its driver is its judge, so only the node
//! that holds a sandbox judges it. It sees what the store knows of any node, and what this server heard itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sunaba_engine::silence::{Look, Rung, Sight, Silence, Step};
use sunaba_sandbox::Status;
use sunaba_store::{EventQuery, SandboxChange};
use sunaba_types::shim::Exit;
use sunaba_types::{Sandbox, SandboxId, SandboxState, Timestamp};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::driver::Driver;
use crate::record::record;
use crate::{Error, Parts};

/// How often it is looked; the rows are read about as often.
const EVERY: Duration = Duration::from_secs(1);

const WARNED: &str = "sandbox.warned";
const UNRESPONSIVE: &str = "sandbox.unresponsive";
const INTERRUPTED: &str = "sandbox.interrupted";
const HEARD_AGAIN: &str = "sandbox.heard_again";

/// Since when this node sees its rows without a gap: the loop looks, the drivers ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct Eyes(Arc<Mutex<Sight>>);

impl Eyes {
    /// The rows were read, and every driver has its own.
    pub(crate) fn saw(&self) {
        self.lock().saw(Instant::now().into_std());
    }

    /// They could not be read.
    pub(crate) fn lost(&self) {
        self.lock().lost();
    }

    fn lock(&self) -> MutexGuard<'_, Sight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What changes whenever a sandbox is heard: by this server, or by any that wrote it down.
type Sign = (u64, Option<Timestamp>);

/// Listens for one sandbox.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    driver: &'a Driver,
    id: &'a SandboxId,
    silence: Silence<Sign>,
    ticks: Interval,
}

impl<'a> Judge<'a> {
    pub(crate) async fn new(driver: &'a Driver, id: &'a SandboxId) -> Self {
        // What is only coming up has told nobody anything.
        let is_up = is_judged(&driver.row.borrow());
        let is_told = is_up && is_told(&driver.parts, id).await;
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { driver, id, silence: Silence::new(Instant::now().into_std(), is_told), ticks }
    }

    /// Waits until something has come of a silence. Nothing is lost when it is dropped and called again.
    pub(crate) async fn step(&mut self) -> Step {
        loop {
            self.ticks.tick().await;
            if let Some(step) = self.look() {
                return step;
            }
        }
    }

    fn look(&mut self) -> Option<Step> {
        let now = Instant::now().into_std();
        let row = self.driver.row.borrow();
        if !is_judged(&row) {
            self.silence.begin(now);
            return None;
        }
        self.silence.look(Look {
            now,
            sign: (self.driver.parts.doors.signs(self.id), row.alive_until),
            unbroken_since: self.driver.eyes.lock().unbroken_since(now),
            window: Duration::from_secs(u64::try_from(row.silence_seconds).unwrap_or(0)),
        })
    }
}

/// What is not up yet has deadlines of its own, and what gives its place up is being ended.
fn is_judged(row: &Sandbox) -> bool {
    matches!(row.state, SandboxState::Running | SandboxState::Completing) && row.terms.suspended.is_none()
}

/// Whether an earlier server told of a silence and not of its end.
async fn is_told(parts: &Parts, id: &SandboxId) -> bool {
    let types = [WARNED, UNRESPONSIVE, INTERRUPTED, HEARD_AGAIN];
    let mut query = EventQuery::newest(id.clone(), 1);
    query.event_types = types.map(str::to_owned).to_vec();
    // If it cannot be read there is only one event less.
    let page = parts.store.list_events(query).await.ok();
    page.and_then(|page| page.events.into_iter().next()).is_some_and(|last| last.event_type != HEARD_AGAIN)
}

impl Driver {
    /// Tells of a step and does what it asks for. How the sandbox ended, if it was ended.
    pub(crate) async fn climb(&self, id: &SandboxId, step: Step) -> Result<Option<Exit>, Error> {
        let Step::Up { rung, silent } = step else {
            tracing::info!(sandbox = %id, "a silent sandbox is heard again");
            record(&self.parts, id, HEARD_AGAIN, &json!({})).await;
            return Ok(None);
        };
        tracing::warn!(sandbox = %id, silent_s = silent.as_secs(), ?rung, "nothing is heard from a sandbox");
        let told = self.told(silent);
        match rung {
            Rung::Heard => {}
            Rung::Warned => record(&self.parts, id, WARNED, &told).await,
            Rung::Unresponsive => self.ask_for(id, told).await,
            Rung::Interrupted => self.interrupt(id, silent, told).await,
            Rung::Failed => return self.give_up(id, silent).await,
        }
        Ok(None)
    }

    fn told(&self, silent: Duration) -> Value {
        json!({ "silent_seconds": silent.as_secs(), "window_seconds": self.row.borrow().silence_seconds })
    }

    /// Asks its provider, so that whoever reads the log knows where to look.
    async fn ask_for(&self, id: &SandboxId, mut told: Value) {
        told["process"] = match self.lives(id).await {
            Some(true) => "lives".into(),
            // How it ended is told in a moment.
            Some(false) => return,
            None => "unknown".into(),
        };
        record(&self.parts, id, UNRESPONSIVE, &told).await;
    }

    /// Has the worker told to end, as for a suspension: one that still can saves its work. A message would be read by
    /// nobody. From here on there is no way back, and whatever it says of its end is no failure of its agent's.
    async fn interrupt(&self, id: &SandboxId, silent: Duration, mut told: Value) {
        if self.lives(id).await == Some(false) {
            return;
        }
        if !self.mark(id, silent).await {
            return;
        }
        told["signal"] = "SIGTERM".into();
        record(&self.parts, id, INTERRUPTED, &told).await;
        if let Err(error) = self.provider.terminate(id).await {
            tracing::warn!(sandbox = %id, %error, "a silent sandbox could not be told to end");
        }
    }

    /// Ends it. One that does not live has ended by itself, which is told in a moment; a provider that does not answer
    /// is asked again.
    async fn give_up(&self, id: &SandboxId, silent: Duration) -> Result<Option<Exit>, Error> {
        if self.lives(id).await != Some(true) || !self.mark(id, silent).await {
            return Ok(None);
        }
        Ok(Some(self.kill(id).await?))
    }

    /// Whether it lives, as its provider sees it; none if that does not answer.
    async fn lives(&self, id: &SandboxId) -> Option<bool> {
        match self.provider.status(id).await {
            Ok(status) => Some(status == Status::Running),
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "cannot ask the provider whether a silent sandbox lives");
                None
            }
        }
    }

    /// Writes down why its work is to go on in another one; an agent that is done has its result recorded instead.
    /// Whether that is done: a store that is away is not waited for, because the sandbox may be heard meanwhile.
    async fn mark(&self, id: &SandboxId, silent: Duration) -> bool {
        if self.row.borrow().state != SandboxState::Running {
            return true;
        }
        let seconds = silent.as_secs();
        let words =
            format!("nothing was heard from the sandbox for {seconds} s, although it lived; it was ended");
        let change = SandboxChange { crashed: Some(words), ..SandboxChange::default() };
        let marked = self.parts.store.change_sandbox(id, change).await;
        if let Err(error) = &marked {
            tracing::warn!(sandbox = %id, %error, "cannot record why a silent sandbox is ended; it is not yet");
        }
        marked.is_ok()
    }
}

#[cfg(test)]
mod tests;
