//! `sunaba stop`: end sandboxes.

use std::process::ExitCode;

use super::Context;
use crate::args::StopArgs;
use crate::client::{Client, LIVING, Sandbox, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::state_word;

/// How many are asked for at once when all are to be ended, and how often.
const PAGE: u32 = 500;
const PAGES: usize = 100;

/// Ends what is named; what has ended already stays as it is.
pub(crate) async fn stop(context: &Context, args: &StopArgs) -> Outcome {
    let client = context.client().await?;
    let mut stopped = Stopped { context, client: &client, ended: Vec::new(), failure: None };
    if args.all {
        return stopped.all().await;
    }
    // All of them first: a wrong word ends nothing.
    let mut ids = Vec::new();
    for word in &args.ids {
        let id = resolve(&client, word).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    for id in &ids {
        stopped.end(id).await;
    }
    if let (true, 1, [one]) = (context.json, ids.len(), stopped.ended.as_slice()) {
        output::json(one);
    } else if context.json && ids.len() > 1 {
        output::json(&stopped.ended);
    }
    stopped.outcome()
}

/// What was ended so far. One that cannot be ended does not keep the others alive.
struct Stopped<'a> {
    context: &'a Context,
    client: &'a Client,
    ended: Vec<Sandbox>,
    /// The first one; further ones are told as they come.
    failure: Option<Failure>,
}

impl Stopped<'_> {
    async fn end(&mut self, id: &str) {
        match self.try_end(id).await {
            Ok(sandbox) => self.ended.push(sandbox),
            Err(failure) if self.failure.is_some() => output::note(&format!("{id}: {failure}")),
            Err(failure) => self.failure = Some(failure),
        }
    }

    async fn try_end(&self, id: &str) -> Outcome<Sandbox> {
        let before = self.client.sandbox(id).await?;
        // One that gave its place up has ended, but its task has not.
        if before.state.is_terminal() && before.terms.suspended.is_none() {
            self.say(&before, "already ");
            return Ok(before);
        }
        match self.client.stop(id).await {
            Ok(sandbox) => {
                let waited = before.terms.suspended.is_some();
                self.say(&sandbox, if waited { "no longer waits; it was " } else { "" });
                Ok(sandbox)
            }
            Err(failure) => {
                // It may have come to its end by itself in the meantime.
                let now = self.client.sandbox(id).await?;
                if !now.state.is_terminal() {
                    return Err(failure);
                }
                self.say(&now, "already ");
                Ok(now)
            }
        }
    }

    /// Ends what lives, also what begins meanwhile.
    async fn all(mut self) -> Outcome {
        for _ in 0..PAGES {
            let living = self.client.sandboxes(Some(LIVING), PAGE).await?;
            if living.is_empty() || self.failure.is_some() {
                if self.context.json {
                    output::json(&self.ended);
                } else if self.ended.is_empty() && self.failure.is_none() {
                    output::note("no sandbox is running");
                }
                return self.outcome();
            }
            for sandbox in living {
                self.end(sandbox.id.as_str()).await;
            }
        }
        Err(Failure::other(format!("{} were ended, and new ones begin all the time", self.ended.len())))
    }

    fn say(&self, sandbox: &Sandbox, already: &str) {
        if !self.context.json {
            let state = state_word(sandbox.state, self.context.colour);
            output::line(&format!("{} {already}{state}", sandbox.id));
        }
    }

    fn outcome(self) -> Outcome {
        self.failure.map_or(Ok(ExitCode::SUCCESS), Err)
    }
}
