//! Turns events into lines. Holds only what a later event needs of an earlier one: the names of open
//! tool calls, and the part of a line of output that has not ended yet.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sunaba_types::SandboxState;

use super::clean::{clean, clean_line};
use super::diff::coloured_diff;
use super::tools::{main_argument, response_text};
use super::words::{duration, shorten};
use crate::client::Event;
use crate::output::Colour;

/// Longest line of output shown.
const OUTPUT_LINE_MAX_CHARS: usize = 500;
/// Most lines of an answer that was not streamed.
const ANSWER_MAX_LINES: usize = 12;
/// Most lines of a file's diff.
const DIFF_MAX_LINES: usize = 24;
/// Most tool calls remembered at once; a worker that never closes any cannot grow the memory.
const CALLS_MAX: usize = 1_000;

/// The story of one sandbox, told line by line.
#[derive(Debug)]
pub(crate) struct Story {
    colour: Colour,
    calls: HashMap<String, Call>,
    answered: HashSet<String>,
    unfinished: String,
}

#[derive(Debug, Default)]
struct Call {
    tool: String,
    streamed: bool,
}

impl Story {
    /// A story with nothing told yet.
    pub(crate) fn new(colour: Colour) -> Self {
        Self { colour, calls: HashMap::new(), answered: HashSet::new(), unfinished: String::new() }
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
        match std::mem::take(&mut self.unfinished) {
            rest if rest.is_empty() => rest,
            rest => self.output_line(&rest),
        }
    }

    fn lines(&mut self, event: &Event) -> String {
        match event.event_type.as_str() {
            "agent.started" => self.started(event),
            "agent.thinking" => self.block("✻", event.text("content"), Colour::dim),
            "agent.message" => self.block("●", event.text("content"), |_, text| text.to_owned()),
            "agent.tool_use" | "agent.subagent_invoked" | "agent.skill_invoked" => self.tool_use(event),
            "agent.tool_output" => self.tool_output(event),
            "agent.tool_completed" | "agent.subagent_completed" | "agent.skill_completed" => {
                self.tool_answer(event, event.event_data.get("tool_response"))
            }
            "agent.tool_result" | "agent.user_tool_result" => {
                self.tool_answer(event, event.event_data.get("result"))
            }
            "agent.file_edited" => self.file_edited(event),
            "agent.message_injected" => self.injected(event),
            "agent.interrupted" => self.interrupted(event),
            "agent.waiting" => self.plain("◌", &format!("waiting: {}", said(event, "message"))),
            "agent.stream_error" | "agent.error" | "agent.failed" => self.error(event),
            "agent.completed" | "continuous.completed" => self.completed(event),
            "sandbox.state_changed" => self.state_changed(event),
            "gateway.git" => self.gateway_git(event),
            "gateway.egress" => self.gateway_egress(event),
            _ => String::new(),
        }
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

    fn tool_use(&mut self, event: &Event) -> String {
        let tool = event.text("tool").or_else(|| event.text("tool_name")).unwrap_or("tool");
        let tool = shorten(&clean_line(tool), 40);
        let input = event.event_data.get("input").or_else(|| event.event_data.get("tool_input"));
        let argument = input.map(main_argument).unwrap_or_default();
        if let Some(id) = call_id(event)
            && self.calls.len() < CALLS_MAX
        {
            self.calls.insert(id.to_owned(), Call { tool: tool.clone(), streamed: false });
        }
        format!("{} {} {argument}\n", self.colour.cyan("◆"), self.colour.cyan(&tool)).replace(" \n", "\n")
    }

    fn tool_output(&mut self, event: &Event) -> String {
        if let Some(call) = call_id(event).and_then(|id| self.calls.get_mut(id)) {
            call.streamed = true;
        }
        self.unfinished.push_str(&event.text("chunk").unwrap_or_default().replace("\r\n", "\n"));
        let mut lines = String::new();
        while let Some(at) = self.unfinished.find('\n') {
            let rest = self.unfinished.split_off(at + 1);
            let line = std::mem::replace(&mut self.unfinished, rest);
            lines.push_str(&self.output_line(line.trim_end_matches('\n')));
        }
        lines
    }

    fn output_line(&self, line: &str) -> String {
        let shown = shorten(clean(line).trim_end(), OUTPUT_LINE_MAX_CHARS);
        format!("  {}\n", self.colour.dim(format!("│ {shown}").trim_end()))
    }

    fn tool_answer(&mut self, event: &Event, response: Option<&Value>) -> String {
        let id = call_id(event).unwrap_or_default().to_owned();
        // Some workers report an answer in two events; the first one told is enough.
        if !id.is_empty() && self.answered.contains(&id) {
            return String::new();
        }
        if self.answered.len() < CALLS_MAX {
            self.answered.insert(id.clone());
        }
        let call = self.calls.remove(&id).unwrap_or_default();
        let tool = event.text("tool").map_or(call.tool, str::to_owned);
        let is_error = event.flag("is_error");
        let answer = response.map(response_text).unwrap_or_default();
        let mut lines = String::new();
        if !call.streamed && (is_error || !is_quiet(&tool)) {
            lines.push_str(&self.answer_lines(&answer));
        }
        lines.push_str(&self.verdict(is_error, event.number("duration_ms"), call.streamed));
        lines
    }

    fn answer_lines(&self, answer: &str) -> String {
        let all: Vec<&str> = answer.trim().lines().collect();
        let mut lines: String =
            all.iter().take(ANSWER_MAX_LINES).map(|line| self.output_line(line)).collect();
        if all.len() > ANSWER_MAX_LINES {
            lines.push_str(&self.output_line(&format!("… {} more lines", all.len() - ANSWER_MAX_LINES)));
        }
        lines
    }

    fn verdict(&self, is_error: bool, took_ms: Option<i64>, streamed: bool) -> String {
        let took = took_ms.map(duration);
        match (is_error, took) {
            (true, Some(took)) => format!("  {}\n", self.colour.red(&format!("✗ failed · {took}"))),
            (true, None) => format!("  {}\n", self.colour.red("✗ failed")),
            // A quick success needs no line of its own.
            (false, Some(took)) if streamed || took_ms.is_some_and(|ms| ms >= 1000) => {
                format!("  {}\n", self.colour.green(&format!("✓ {took}")))
            }
            (false, _) => String::new(),
        }
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
        let body: Vec<&str> =
            preview.lines().filter(|line| !line.starts_with("---") && !line.starts_with("+++")).collect();
        let shown = body.iter().take(DIFF_MAX_LINES).copied().collect::<Vec<_>>().join("\n");
        let mut lines = head + &coloured_diff(&shown, "    ", self.colour);
        if body.len() > DIFF_MAX_LINES {
            let more = format!("… {} more lines", body.len() - DIFF_MAX_LINES);
            lines.push_str(&format!("    {}\n", self.colour.dim(&more)));
        }
        lines
    }

    fn injected(&self, event: &Event) -> String {
        let content = shorten(&said(event, "content"), 200);
        let kind = event.text("message_type").unwrap_or("user_message");
        message_line(self.colour, kind, &content, "consumed")
    }

    fn interrupted(&self, event: &Event) -> String {
        let reason = said(event, "reason");
        let text =
            if reason.is_empty() { "interrupted".to_owned() } else { format!("interrupted: {reason}") };
        format!("{}\n", self.colour.yellow(&format!("■ {text}")))
    }

    fn error(&self, event: &Event) -> String {
        let text = clean(event.text("error").unwrap_or("something went wrong"));
        let text = text.lines().take(ANSWER_MAX_LINES).collect::<Vec<_>>().join("\n  ");
        format!("{}\n", self.colour.red(&format!("✗ {text}")))
    }

    fn completed(&self, event: &Event) -> String {
        let turns = event.number("turns");
        let tokens = event.number("input_tokens").zip(event.number("output_tokens"));
        let mut facts = Vec::new();
        if let Some(turns) = turns {
            facts.push(format!("{turns} turns"));
        }
        if let Some((input, output)) = tokens.filter(|(input, output)| input + output > 0) {
            facts.push(format!("{input} tokens in, {output} out"));
        }
        let word = if event.flag("success") { "the agent is done" } else { "the agent stopped" };
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        self.plain("▣", &format!("{word}{facts}"))
    }

    fn state_changed(&self, event: &Event) -> String {
        let to = said(event, "to");
        let reason = said(event, "reason");
        let text = match reason.as_str() {
            "" => to.clone(),
            // "cancelled by …" says the state itself.
            words if words.starts_with(&to) => reason,
            words => format!("{to}: {words}"),
        };
        match SandboxState::parse(&to) {
            Some(SandboxState::Completed) => format!("{}\n", self.colour.green(&format!("✔ {text}"))),
            Some(SandboxState::Failed) => format!("{}\n", self.colour.red(&format!("✘ {text}"))),
            Some(SandboxState::Cancelled) => format!("{}\n", self.colour.yellow(&format!("■ {text}"))),
            _ => format!("{}\n", self.colour.dim(&format!("○ {text}"))),
        }
    }

    fn gateway_git(&self, event: &Event) -> String {
        let refused = |why: &str| format!("{}\n", self.colour.red(&format!("✗ git: {}", clean_line(why))));
        let mut lines = String::new();
        for update in event.event_data.get("refs").and_then(Value::as_array).into_iter().flatten() {
            let name = update.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(why) = update.get("refused").and_then(Value::as_str) {
                lines.push_str(&refused(&format!("{name}: {why}")));
            } else if let Some(branch) = name.strip_prefix("refs/heads/") {
                lines.push_str(&self.plain("⇡", &format!("pushed {}", clean_line(branch))));
            }
        }
        let allowed = event.event_data.get("allowed").and_then(Value::as_bool).unwrap_or(true);
        if !allowed && lines.is_empty() {
            lines.push_str(&refused(event.text("reason").unwrap_or("refused")));
        }
        lines
    }

    fn gateway_egress(&self, event: &Event) -> String {
        self.plain("⇢", &format!("network: {}", shorten(&clean_line(&event.event_data.to_string()), 160)))
    }
}

/// A message and how far it has come.
pub(crate) fn message_line(colour: Colour, kind: &str, content: &str, state: &str) -> String {
    let content = shorten(&clean_line(content), 200);
    let (glyph, who) = match kind {
        "interrupt" => ("✋", "interrupt"),
        "guardian_nudge" => ("✉", "guardian"),
        "system" => ("✉", "system"),
        _ => ("✉", "you"),
    };
    format!(
        "{} {} {}\n",
        colour.magenta(glyph),
        colour.magenta(&format!("{who}: {content}")),
        colour.dim(&format!("[{state}]"))
    )
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

fn call_id(event: &Event) -> Option<&str> {
    event.text("tool_use_id").or_else(|| event.text("tool_id"))
}

/// Tools whose answer is long and says what the reader can look up.
fn is_quiet(tool: &str) -> bool {
    matches!(tool, "Read" | "Write" | "Edit" | "Glob" | "Grep" | "TodoWrite" | "LS")
}
