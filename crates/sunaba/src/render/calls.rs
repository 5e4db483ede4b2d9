//! Tool calls: every result stands under the header of its own call, and long output is cut short.
//!
//! An agent that asks for several tools at once announces all of them first. A header waits until the calls
//! before it are answered; where results of several calls mix, the header is repeated.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::clean::{clean, clean_line};
use super::look::Look;
use super::tools::{main_argument, response_text};
use super::words::{counted, duration, shorten};
use crate::client::Event;

/// Lines of a command's output that are shown as they come.
const OUTPUT_HEAD_LINES: usize = 20;
/// Lines at its end that are shown when it is over; they tend to say how it went.
const OUTPUT_TAIL_LINES: usize = 5;
/// Most lines of an answer that was not streamed.
const ANSWER_MAX_LINES: usize = 12;
/// Longest word for how a call failed.
const VERDICT_MAX_CHARS: usize = 80;
/// Most tool calls remembered at once; a worker that never closes any cannot grow the memory.
const CALLS_MAX: usize = 1_000;
/// Most of a line that is kept while its end has not come.
const UNFINISHED_MAX_BYTES: usize = 64 * 1024;
/// What stands before a line of output.
const MARGIN: usize = 4;

#[derive(Debug, Default)]
struct Call {
    tool: String,
    header: String,
    headed: bool,
    streamed: bool,
    lines: usize,
    last: VecDeque<String>,
}

/// The calls that are open.
#[derive(Debug)]
pub(super) struct Calls {
    look: Look,
    open: HashMap<String, Call>,
    /// Calls whose header was not shown yet, in their order.
    waiting: VecDeque<String>,
    /// The call whose header or output stands last.
    current: Option<String>,
    answered: HashSet<String>,
    unfinished: String,
}

impl Calls {
    pub(super) fn new(look: Look) -> Self {
        Self {
            look,
            open: HashMap::new(),
            waiting: VecDeque::new(),
            current: None,
            answered: HashSet::new(),
            unfinished: String::new(),
        }
    }

    /// A tool is asked for.
    pub(super) fn begin(&mut self, event: &Event) -> String {
        let tool = event.text("tool").or_else(|| event.text("tool_name")).unwrap_or("tool");
        let tool = shorten(&clean_line(tool), 40);
        let input = event.event_data.get("input").or_else(|| event.event_data.get("tool_input"));
        let argument = input.map(main_argument).unwrap_or_default();
        let argument = shorten(&argument, self.look.room_after(tool.chars().count() + 3));
        let colour = self.look.colour;
        let header =
            format!("{} {} {argument}", colour.cyan("◆"), colour.cyan(&tool)).trim_end().to_owned() + "\n";
        let Some(id) = call_id(event).filter(|_| self.open.len() < CALLS_MAX) else {
            self.current = None;
            return header;
        };
        let others_run = self.open.values().any(|call| call.headed);
        self.open.insert(id.to_owned(), Call { tool, header, ..Call::default() });
        if others_run {
            self.waiting.push_back(id.to_owned());
            return String::new();
        }
        self.heading(id)
    }

    /// The header of a call, unless what stands last belongs to it.
    pub(super) fn heading(&mut self, id: &str) -> String {
        if self.current.as_deref() == Some(id) {
            return String::new();
        }
        let rest = self.finish_line();
        let Some(call) = self.open.get_mut(id) else { return rest };
        call.headed = true;
        self.waiting.retain(|waiting| waiting != id);
        self.current = Some(id.to_owned());
        rest + &call.header
    }

    /// Something else was told: headers that still wait go before it, and what follows is headed anew.
    pub(super) fn step_aside(&mut self) -> String {
        let mut lines = self.take_held_back();
        for id in std::mem::take(&mut self.waiting) {
            lines.push_str(&self.heading(&id));
        }
        // A call that is never answered must not hold up the headers of later ones.
        self.open.values_mut().for_each(|call| call.headed = false);
        self.current = None;
        lines
    }

    /// What was held back of the call that stands last; it is not told again when the call is answered.
    fn take_held_back(&mut self) -> String {
        let Some(call) = self.current.as_deref().and_then(|id| self.open.get_mut(id)) else {
            return String::new();
        };
        let (lines, last) = (std::mem::take(&mut call.lines), std::mem::take(&mut call.last));
        self.cut_lines(&Call { lines, last, ..Call::default() })
    }

    /// A running command wrote something.
    pub(super) fn output(&mut self, event: &Event) -> String {
        let id = call_id(event).unwrap_or_default().to_owned();
        if !self.open.contains_key(&id) && self.open.len() < CALLS_MAX {
            self.open.insert(id.clone(), Call { headed: true, ..Call::default() });
        }
        let mut lines = self.heading(&id);
        if let Some(call) = self.open.get_mut(&id) {
            call.streamed = true;
        }
        self.unfinished.push_str(event.text("chunk").unwrap_or_default());
        while let Some(at) = self.unfinished.find('\n') {
            let rest = self.unfinished.split_off(at + 1);
            let line = std::mem::replace(&mut self.unfinished, rest);
            lines.push_str(&self.counted_line(line.trim_end_matches('\n')));
        }
        // A progress bar draws over itself; only its last state counts.
        if let Some(at) = self.unfinished.trim_end_matches('\r').rfind('\r') {
            self.unfinished.drain(..=at);
        }
        if self.unfinished.len() > UNFINISHED_MAX_BYTES {
            lines.push_str(&self.finish_line());
        }
        lines
    }

    /// What is left of an output line that never ended.
    pub(super) fn finish_line(&mut self) -> String {
        match std::mem::take(&mut self.unfinished) {
            rest if rest.is_empty() => rest,
            rest => self.counted_line(&rest),
        }
    }

    /// A tool has answered.
    pub(super) fn answer(&mut self, event: &Event, response: Option<&Value>) -> String {
        let id = call_id(event).unwrap_or_default().to_owned();
        // Some workers report an answer in two events; the first one told is enough.
        if !id.is_empty() && self.answered.contains(&id) {
            return String::new();
        }
        if self.answered.len() < CALLS_MAX {
            self.answered.insert(id.clone());
        }
        let rest = self.finish_line();
        let waits = self.waiting.contains(&id);
        let header = self.heading(&id);
        let call = self.open.remove(&id).unwrap_or_default();
        let mut body = self.cut_lines(&call);
        body.push_str(&self.answer_body(event, &call, response));
        let header = if waits || !body.is_empty() { header } else { String::new() };
        let next = if self.open.values().any(|call| call.headed) { None } else { self.waiting.pop_front() };
        let next = next.map(|id| self.heading(&id)).unwrap_or_default();
        rest + &header + &body + &next
    }

    fn answer_body(&self, event: &Event, call: &Call, response: Option<&Value>) -> String {
        let tool = event.text("tool").unwrap_or(&call.tool);
        let is_error = event.flag("is_error");
        let answer = response.map(response_text).unwrap_or_default();
        let (shown, ending) = if is_error { take_ending(&answer) } else { (answer.trim(), None) };
        let mut lines = String::new();
        if !call.streamed && (is_error || !is_quiet(tool)) {
            lines.push_str(&self.answer_lines(shown));
        }
        lines.push_str(&self.verdict(is_error, ending, event.number("duration_ms"), call.streamed));
        lines
    }

    fn answer_lines(&self, answer: &str) -> String {
        let all: Vec<&str> = answer.lines().collect();
        let most = if self.look.full { usize::MAX } else { ANSWER_MAX_LINES };
        let mut lines: String = all.iter().take(most).map(|line| self.output_line(line)).collect();
        if all.len() > most {
            lines.push_str(&self.more_lines(all.len() - most));
        }
        lines
    }

    fn verdict(&self, is_error: bool, ending: Option<&str>, took_ms: Option<i64>, streamed: bool) -> String {
        let colour = self.look.colour;
        let took = took_ms.map(|ms| format!(" · {}", duration(ms))).unwrap_or_default();
        match (is_error, ending) {
            (true, Some(why)) if why.starts_with("[interrupted") => {
                let word =
                    if why.contains("before it ran") { "interrupted before it ran" } else { "interrupted" };
                format!("  {}\n", colour.yellow(&format!("■ {word}")))
            }
            (true, why) => {
                let why = shorten(&clean_line(why.unwrap_or("failed")), VERDICT_MAX_CHARS);
                format!("  {}\n", colour.red(&format!("✗ {why}{took}")))
            }
            // A quick success needs no line of its own.
            (false, _) if took_ms.is_some_and(|ms| streamed || ms >= 1000) => {
                format!("  {}\n", colour.green(&format!("✓{}", took.trim_start_matches(" ·"))))
            }
            (false, _) => String::new(),
        }
    }

    /// A line of the current call's output, unless it has had its share.
    fn counted_line(&mut self, line: &str) -> String {
        let line = line.trim_end_matches('\r');
        let line = line.rsplit('\r').next().unwrap_or(line);
        let shown = self.output_line(line);
        let current = self.current.clone().unwrap_or_default();
        let Some(call) = self.open.get_mut(&current) else { return shown };
        call.lines += 1;
        if self.look.full || call.lines <= OUTPUT_HEAD_LINES {
            return shown;
        }
        if call.last.len() == OUTPUT_TAIL_LINES {
            call.last.pop_front();
        }
        call.last.push_back(shown);
        String::new()
    }

    /// What was held back of a call's output: a count, and its end.
    fn cut_lines(&self, call: &Call) -> String {
        let held_back = call.lines.saturating_sub(OUTPUT_HEAD_LINES + call.last.len());
        let mut lines = String::new();
        if !self.look.full && held_back > 0 {
            lines.push_str(&self.more_lines(held_back));
        }
        lines.extend(call.last.iter().map(String::as_str));
        lines
    }

    fn more_lines(&self, count: usize) -> String {
        let count = counted(count, "more line", "more lines");
        let hint = format!("│ … {count} ({})", self.look.rest);
        format!("  {}\n", self.look.colour.dim(&hint))
    }

    fn output_line(&self, line: &str) -> String {
        let shown = shorten(clean(line).trim_end(), self.look.room_after(MARGIN));
        format!("  {}\n", self.look.colour.dim(format!("│ {shown}").trim_end()))
    }
}

/// The id of the call that an event is about.
pub(super) fn call_id(event: &Event) -> Option<&str> {
    event.text("tool_use_id").or_else(|| event.text("tool_id"))
}

/// Parts the last line of a failed call's answer from the rest, where it says how the call ended.
fn take_ending(answer: &str) -> (&str, Option<&str>) {
    let answer = answer.trim();
    let (before, last) = answer.rsplit_once('\n').unwrap_or(("", answer));
    let tells = ["[interrupted", "exit code ", "the command was ended"];
    if tells.iter().any(|start| last.starts_with(start)) {
        return (before.trim_end(), Some(last));
    }
    (answer, None)
}

/// Tools whose answer is long and says what the reader can look up.
fn is_quiet(tool: &str) -> bool {
    matches!(tool, "Read" | "Write" | "Edit" | "Glob" | "Grep" | "TodoWrite" | "LS")
}
