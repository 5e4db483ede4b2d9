//! Turns events into lines. Holds only what a later event needs of an earlier one: the open tool calls, who
//! sent which message, and the failure that was told last.

use std::collections::HashMap;

use serde_json::Value;
use sunaba_types::SandboxState;

use super::calls::{Calls, call_id};
use super::clean::{clean, clean_line};
use super::diff::coloured_diff;
use super::look::Look;
use super::words::{counted, shorten};
use crate::client::Event;
use crate::output::Colour;

/// Most lines of a failure.
/// Most lines of a failed setup's output shown.
const SETUP_MAX_LINES: usize = 12;
const ERROR_MAX_LINES: usize = 12;
/// Most lines of a file's diff.
const DIFF_MAX_LINES: usize = 24;
/// Most messages whose sender is remembered.
const SENDERS_MAX: usize = 10_000;
/// Who sent a message when that is not known.
const SOMEBODY: &str = "somebody";

/// The story of one sandbox, told line by line.
#[derive(Debug)]
pub(crate) struct Story {
    colour: Colour,
    full: bool,
    calls: Calls,
    senders: HashMap<String, String>,
    told_failure: Option<String>,
    /// Its place is being given up: what its agent says when it is told to end is no failure.
    suspended: bool,
}

impl Story {
    /// A story with nothing told yet.
    pub(crate) fn new(look: Look) -> Self {
        Self {
            colour: look.colour,
            full: look.full,
            calls: Calls::new(look),
            senders: HashMap::new(),
            told_failure: None,
            suspended: false,
        }
    }

    /// Who sent a message; messages in the log do not say it themselves.
    pub(crate) fn sender_is(&mut self, message_id: &str, who: &str) {
        if self.senders.len() < SENDERS_MAX {
            self.senders.insert(message_id.to_owned(), who.to_owned());
        }
    }

    /// The same, unless it is known already.
    pub(crate) fn learn_sender(&mut self, message_id: &str, who: &str) {
        if !self.senders.contains_key(message_id) {
            self.sender_is(message_id, who);
        }
    }

    /// Whether an event enters a message whose sender is not known yet.
    pub(crate) fn wants_sender(&self, event: &Event) -> bool {
        let id = event.text("message_id").filter(|_| event.event_type == "agent.message_injected");
        id.is_some_and(|id| !self.senders.contains_key(id))
    }

    /// The lines for the next event; empty when it is not worth one.
    pub(crate) fn tell(&mut self, event: &Event) -> String {
        let mut text = String::new();
        if event.event_type != "agent.tool_output" {
            text.push_str(&self.finish_output());
        }
        text.push_str(&self.lines(event));
        text
    }

    /// What is left of an output line that never ended.
    pub(crate) fn finish_output(&mut self) -> String {
        self.calls.finish_line()
    }

    fn lines(&mut self, event: &Event) -> String {
        match event.event_type.as_str() {
            "agent.tool_use" | "agent.subagent_invoked" | "agent.skill_invoked" => self.calls.begin(event),
            "agent.tool_output" => self.calls.output(event),
            "agent.tool_completed" | "agent.subagent_completed" | "agent.skill_completed" => {
                self.calls.answer(event, event.event_data.get("tool_response"))
            }
            "agent.tool_result" | "agent.user_tool_result" => {
                self.calls.answer(event, event.event_data.get("result"))
            }
            "agent.file_edited" => {
                let header = call_id(event).map(|id| self.calls.heading(id)).unwrap_or_default();
                header + &self.file_edited(event)
            }
            // Messages and pushes come while a command runs, without ending its output.
            "agent.message_injected" => self.injected(event),
            "gateway.git" => self.gateway_git(event),
            "gateway.egress" => self.gateway_egress(event),
            "gateway.budget" | "gateway.quota" => self.gateway_limit(event),
            _ => match self.own_words(event) {
                lines if lines.is_empty() => lines,
                lines => self.calls.step_aside() + &lines,
            },
        }
    }

    /// Events that stand between tool calls.
    fn own_words(&mut self, event: &Event) -> String {
        match event.event_type.as_str() {
            "agent.started" => self.started(event),
            "agent.thinking" => self.block("✻", event.text("content"), Colour::dim),
            "agent.message" => self.block("●", event.text("content"), |_, text| text.to_owned()),
            "agent.interrupted" => self.interrupted(event),
            "agent.waiting" => self.plain("◌", &format!("waiting: {}", said(event, "message"))),
            "agent.stream_error" if event.flag("retrying") => self.retried(event),
            "agent.stream_error" | "agent.error" | "agent.failed" => self.failure(event),
            "agent.completed" => self.completed(event),
            "iteration.started" | "iteration.validation" | "iteration.failed" | "continuous.completed" => {
                self.iteration(event)
            }
            "sandbox.state_changed" => self.state_changed(event),
            "sandbox.setup" => self.setup(event),
            "sandbox.waiting" => self.plain("◌", &format!("waiting: {}", said(event, "reason"))),
            "sandbox.result" => {
                self.plain("✔", "the result is recorded; it waits whether there is more to do")
            }
            "sandbox.suspending" => {
                self.suspended = true;
                self.plain("◌", &format!("suspended: {}", said(event, "reason")))
            }
            "sandbox.timeout" => self.plain("◷", "its time is over; it is asked to end"),
            "sandbox.warning" => self.warnings(event),
            "sandbox.warned" | "sandbox.unresponsive" | "sandbox.interrupted" => self.silence(event),
            "sandbox.heard_again" => self.plain("◷", "it is heard again"),
            _ => super::questions::lines(event, self.colour),
        }
    }

    fn silence(&self, event: &Event) -> String {
        let seconds = event.number("silent_seconds").unwrap_or(0);
        let more = match event.event_type.as_str() {
            "sandbox.unresponsive" if event.text("process") == Some("lives") => ", although it lives",
            "sandbox.interrupted" => "; it is asked to end",
            _ => "",
        };
        self.plain("◷", &format!("nothing was heard from the sandbox for {seconds} s{more}"))
    }

    fn plain(&self, glyph: &str, text: &str) -> String {
        format!("{} {text}\n", self.colour.dim(glyph))
    }

    /// Text of several lines behind one glyph.
    fn block(&self, glyph: &str, text: Option<&str>, paint: fn(Colour, &str) -> String) -> String {
        let text = clean(text.unwrap_or_default().trim());
        let mut lines = String::new();
        for (index, line) in text.lines().enumerate() {
            let head = if index == 0 { paint(self.colour, glyph) } else { " ".to_owned() };
            lines.push_str(format!("{head} {}", paint(self.colour, line)).trim_end());
            lines.push('\n');
        }
        lines
    }

    fn started(&self, event: &Event) -> String {
        let runtime = event.text("runtime").or_else(|| event.text("sdk")).unwrap_or("agent");
        let model = event.text("model").unwrap_or_default();
        // A stored script goes by its hash; the beginning of it is name enough.
        let most = if model.starts_with("script:") { 16 } else { 60 };
        let text = clean_line(&format!("{runtime} agent started · {}", shorten(model, most)));
        self.plain("▶", text.trim_end_matches([' ', '·']))
    }

    fn file_edited(&self, event: &Event) -> String {
        let path = said(event, "file_path");
        let path = path.trim_start_matches("/workspace/");
        let change = event.text("change_type").unwrap_or("modified");
        let (added, removed) =
            (event.number("lines_added").unwrap_or(0), event.number("lines_removed").unwrap_or(0));
        let counts = format!(
            "{} {}",
            self.colour.green(&format!("+{added}")),
            self.colour.red(&format!("-{removed}"))
        );
        let word = if change == "modified" { String::new() } else { format!(" {}", clean_line(change)) };
        let head = format!("{} {}{word} {counts}\n", self.colour.yellow("±"), self.colour.bold(path));
        let preview = event.text("diff_preview").unwrap_or_default();
        let body = without_header(preview);
        let most = if self.full { usize::MAX } else { DIFF_MAX_LINES };
        let shown = body.iter().take(most).copied().collect::<Vec<_>>().join("\n");
        let mut lines = head + &coloured_diff(&shown, "    ", self.colour);
        if body.len() > most {
            let more = format!("… {}", counted(body.len() - most, "more line", "more lines"));
            lines.push_str(&format!("    {}\n", self.colour.dim(&more)));
        }
        lines
    }

    fn injected(&self, event: &Event) -> String {
        let kind = event.text("message_type").unwrap_or("user_message");
        let sender = event.text("message_id").and_then(|id| self.senders.get(id));
        let sender = sender.map_or(SOMEBODY, String::as_str);
        message_line(self.colour, kind, sender, event.text("content").unwrap_or_default(), "read")
    }

    fn interrupted(&self, event: &Event) -> String {
        let text = match said(event, "reason").as_str() {
            "" => "interrupted".to_owned(),
            by if by.starts_with("by ") => format!("interrupted {by}"),
            words => format!("interrupted: {words}"),
        };
        format!("{}\n", self.colour.yellow(&format!("■ {text}")))
    }

    fn retried(&self, event: &Event) -> String {
        let why = shorten(&said(event, "error"), 200);
        format!("{}\n", self.colour.yellow(&format!("↻ trying again: {why}")))
    }

    /// A failure, once: the worker, the server and the sandbox each report it.
    fn failure(&mut self, event: &Event) -> String {
        let text = clean(event.text("error").unwrap_or("something went wrong"));
        if self.suspended || self.was_told(&text) {
            return String::new();
        }
        let lines = text.lines().take(ERROR_MAX_LINES).collect::<Vec<_>>().join("\n  ");
        self.told_failure = Some(text);
        format!("{}\n", self.colour.red(&format!("✗ {lines}")))
    }

    fn was_told(&self, failure: &str) -> bool {
        let told = self.told_failure.as_deref().filter(|told| !told.is_empty());
        told.is_some_and(|told| told.contains(failure) || failure.contains(told))
    }

    fn completed(&self, event: &Event) -> String {
        let turns = event.number("turns");
        let tokens = event.number("input_tokens").zip(event.number("output_tokens"));
        let mut facts = Vec::new();
        if let Some(turns) = turns {
            facts.push(counted(usize::try_from(turns).unwrap_or(0), "turn", "turns"));
        }
        if let Some((input, output)) = tokens.filter(|(input, output)| input + output > 0) {
            facts.push(format!("{input} tokens in, {output} out"));
        }
        let word = if event.flag("success") { "the agent is done" } else { "the agent stopped" };
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        self.plain("▣", &format!("{word}{facts}"))
    }

    /// How a run goes on that ends when its work is seen to be done.
    fn iteration(&self, event: &Event) -> String {
        let is_done = event.flag("validation_passed");
        match event.event_type.as_str() {
            "iteration.started" => {
                self.plain("↻", &format!("iteration {}", event.number("iteration_num").unwrap_or(0)))
            }
            "iteration.failed" => self.plain("↻", &format!("the iteration failed: {}", said(event, "error"))),
            "iteration.validation" if is_done => self.plain("✓", "what it says is there"),
            "iteration.validation" => self.plain("↻", "it says that it is done, and it is not"),
            _ if is_done => self.plain("▣", "done, and seen to be"),
            _ => self.plain("▣", &format!("not done: {}", said(event, "stop_reason"))),
        }
    }

    fn state_changed(&self, event: &Event) -> String {
        let to = said(event, "to");
        let reason = said(event, "reason");
        let text = match reason.as_str() {
            "" => to.clone(),
            words if self.was_told(words) => to.clone(),
            // "cancelled by …" says the state itself.
            words if words.starts_with(&to) => reason,
            words => format!("{to}: {words}"),
        };
        match SandboxState::parse(&to) {
            Some(SandboxState::Completed) if self.suspended => {
                self.plain("◌", "its sandbox is given up; the task goes on in a new one")
            }
            Some(SandboxState::Completed) => format!("{}\n", self.colour.green(&format!("✔ {text}"))),
            Some(SandboxState::Failed) => format!("{}\n", self.colour.red(&format!("✘ {text}"))),
            Some(SandboxState::Cancelled) => format!("{}\n", self.colour.yellow(&format!("■ {text}"))),
            _ => format!("{}\n", self.colour.dim(&format!("○ {text}"))),
        }
    }

    /// A push: only a ref that git wrote is shown as pushed.
    fn gateway_git(&self, event: &Event) -> String {
        let allowed = event.event_data.get("allowed").and_then(Value::as_bool).unwrap_or(true);
        let reason = event.text("reason").or_else(|| event.text("error"));
        let refs = event.event_data.get("refs").and_then(Value::as_array);
        let refs = refs.map(Vec::as_slice).unwrap_or_default();
        if !allowed && refs.is_empty() {
            return self.refused("git", reason);
        }
        // Steps are pushed all the time; only that one was not taken is news.
        let is_news = |update: &&Value| !(allowed && is_step(update));
        refs.iter().filter(is_news).map(|update| self.ref_update(update, allowed, reason)).collect()
    }

    fn ref_update(&self, update: &Value, allowed: bool, reason: Option<&str>) -> String {
        let name = update.get("name").and_then(Value::as_str).unwrap_or_default();
        let name = clean_line(name.strip_prefix("refs/heads/").unwrap_or(name));
        let refused = update.get("refused").and_then(Value::as_str);
        let written = update.get("written").and_then(Value::as_bool).unwrap_or(true);
        if !allowed || !written || refused.is_some() {
            return self.refused(&format!("push to {name}"), refused.or(reason));
        }
        let new = update.get("new").and_then(Value::as_str).unwrap_or_default();
        let is_gone = !new.is_empty() && new.bytes().all(|digit| digit == b'0');
        self.plain("⇡", &format!("{} {name}", if is_gone { "deleted" } else { "pushed" }))
    }

    fn refused(&self, what: &str, why: Option<&str>) -> String {
        let why = why.map(|why| format!(": {}", clean_line(why))).unwrap_or_default();
        format!("{}\n", self.colour.red(&format!("✗ {what} refused{why}")))
    }

    /// A host that was refused, or that could not be reached; what went well is no news.
    fn gateway_egress(&self, event: &Event) -> String {
        let to = format!("{}:{}", said(event, "host"), event.number("port").unwrap_or(0));
        let times = event.number("count").filter(|count| *count > 1).map(|count| format!(" ({count} times)"));
        let times = times.unwrap_or_default();
        match (event.text("decision"), event.text("error")) {
            (Some("refused"), _) => {
                let rule = said(event, "rule");
                let text = format!("⇢ network: {to} refused by {rule}{times}");
                format!("{}\n", self.colour.yellow(&text))
            }
            (_, Some(error)) => self.plain("⇢", &format!("network: {to}: {}{times}", clean_line(error))),
            _ => String::new(),
        }
    }

    /// A bound that the gateway put on an answer, or that a model's provider put on us.
    fn gateway_limit(&self, event: &Event) -> String {
        let text = match (event.number("lowered_from"), event.number("lowered_to")) {
            (Some(from), Some(to)) => {
                format!("the budget lowers the longest answer from {from} to {to} tokens")
            }
            _ => match event.text("until") {
                Some(until) => {
                    format!("the model's provider takes no more calls until {}", clean_line(until))
                }
                None => "the model's provider takes no more calls for a while".to_owned(),
            },
        };
        format!("{}\n", self.colour.yellow(&format!("$ {text}")))
    }

    /// What was prepared before the agent started.
    fn setup(&self, event: &Event) -> String {
        let command = shorten(&said(event, "command"), 120);
        match event.text("status").unwrap_or_default() {
            "started" => self.plain("⚙", &format!("setting up: {command}")),
            "reused" => self.plain("⚙", &format!("set up before: {command}")),
            "done" => {
                let seconds = event.number("seconds").unwrap_or(0);
                self.plain("⚙", &format!("set up in {seconds} s"))
            }
            status => {
                let why = said(event, "reason");
                let head = format!("⚙ setup {}: {command}: {why}", clean_line(status));
                let output = clean(event.text("output").unwrap_or_default().trim_end());
                let lines: Vec<&str> = output.lines().collect();
                let first = lines.len().saturating_sub(SETUP_MAX_LINES);
                let tail: String = lines[first..].iter().map(|line| format!("  │ {line}\n")).collect();
                format!("{}\n{}", self.colour.yellow(&head), tail)
            }
        }
    }

    fn warnings(&self, event: &Event) -> String {
        let warnings = event.event_data.get("warnings").and_then(Value::as_array);
        let file = said(event, "file");
        let told = warnings.into_iter().flatten().filter_map(Value::as_str);
        told.map(|warning| format!("{}\n", self.colour.yellow(&format!("⚠ {file}: {}", clean_line(warning)))))
            .collect()
    }
}

/// A message, who sent it and how far it has come.
pub(crate) fn message_line(colour: Colour, kind: &str, sender: &str, content: &str, state: &str) -> String {
    let content = shorten(&clean_line(content.trim()), 200);
    let sender = shorten(&clean_line(sender), 40);
    let text = match kind {
        "interrupt" if content.is_empty() => format!("interrupt by {sender}"),
        "interrupt" => format!("interrupt by {sender}: {content}"),
        "guardian_nudge" => format!("guardian: {content}"),
        "system" => format!("system: {content}"),
        _ => format!("{sender}: {content}"),
    };
    let glyph = if kind == "interrupt" { "✋" } else { "✉" };
    let state = colour.dim(&format!("[{}]", clean_line(state)));
    format!("{} {} {state}\n", colour.magenta(glyph), colour.magenta(&text))
}

/// A state in its colour.
pub(crate) fn state_word(state: SandboxState, colour: Colour) -> String {
    match state {
        SandboxState::Completed => colour.green(state.as_str()),
        SandboxState::Failed => colour.red(state.as_str()),
        SandboxState::Cancelled => colour.yellow(state.as_str()),
        SandboxState::Pending | SandboxState::Creating | SandboxState::Running | SandboxState::Completing => {
            colour.cyan(state.as_str())
        }
    }
}

fn said(event: &Event, name: &str) -> String {
    clean_line(event.text(name).unwrap_or_default())
}

/// Whether a ref that git wrote holds a sandbox's steps.
fn is_step(update: &Value) -> bool {
    let name = update.get("name").and_then(Value::as_str).unwrap_or_default();
    name.starts_with("refs/sunaba/") && update.get("written").and_then(Value::as_bool).unwrap_or(false)
}

/// The lines of one file's diff that say something about its content.
fn without_header(diff: &str) -> Vec<&str> {
    const HEADER: [&str; 7] =
        ["diff --git ", "index ", "new file ", "deleted file ", "similarity ", "--- ", "+++ "];
    let first_hunk = diff.lines().position(|line| line.starts_with("@@")).unwrap_or(usize::MAX);
    let is_header = |line: &str| HEADER.iter().any(|start| line.starts_with(start));
    let lines = diff.lines().enumerate();
    lines.filter(|(at, line)| *at >= first_hunk || !is_header(line)).map(|(_, line)| line).collect()
}
