//! Chooses the turn that answers a request, from the request alone.
//!
//! The conversation is gone through from its start: each time the model spoke,
//! it was either by a `when:` turn, which is found again by matching what had
//! been said before, or by the next turn of the main line. So the place in the
//! main line is known without keeping anything, and a side turn never uses one up.

use std::time::Duration;

use serde_json::Value;

use super::conversation::{Conversation, Speaker, ToolKind, View};
use super::format::Script;
use super::tools::{Quoting, fill, render};
use super::turn::{ErrorSpec, Expectation, Turn, When};
use crate::usage::Usage;

const PAST_THE_END: &str = "The script has no further turn.";

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Thinking(String),
    Text(String),
    Tool(ToolCall),
}

/// A call of a tool that the request offers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    /// Its own; dialects put their usual letters before it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) kind: ToolKind,
    /// An object, or a text for a tool that takes one.
    pub(crate) input: Value,
}

/// Why the model stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopReason {
    EndOfTurn,
    ToolUse,
    Other(String),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) delay: Duration,
    pub(crate) chunk_delay: Duration,
}

/// What a script answers.
#[derive(Debug, Clone)]
pub(crate) enum Played {
    /// Words and tools.
    Reply { turn: Option<usize>, reply: Reply },
    /// A scripted error.
    Error { turn: usize, error: ErrorSpec, delay: Duration },
    /// The request is not what the script was written for.
    Failed { turn: usize, message: String },
}

/// Answers a request. `error_owed` says whether a turn's error, which is to be given some number of
/// times, has to be given once more: the one thing that a request cannot tell.
pub(crate) fn play(
    script: &Script,
    conversation: &Conversation,
    error_owed: impl FnOnce(usize, u32) -> bool,
) -> Played {
    let view = conversation.view();
    let Some(index) = choose(script, conversation) else {
        return Played::Reply { turn: None, reply: past_the_end(conversation) };
    };
    let turn = &script.turns[index];
    let number = index + 1;
    if let Some(missing) = turn.expect.iter().find(|expectation| !holds(expectation, view)) {
        let message = format!("script turn {number}: expectation failed: {}", describe(missing));
        return Played::Failed { turn: number, message };
    }
    let delay = Duration::from_millis(turn.delay_ms);
    if let Some(error) = &turn.error {
        // Counted by place in the conversation too, so that a repeated side turn owes its error again.
        let place = index * 10_000 + view.assistant_count().min(9_999);
        if error.times.is_none_or(|times| error_owed(place, times)) {
            return Played::Error { turn: number, error: error.clone(), delay };
        }
    }
    match reply(turn, view, delay) {
        Ok(reply) => Played::Reply { turn: Some(number), reply },
        Err(message) => Played::Failed { turn: number, message: format!("script turn {number}: {message}") },
    }
}

fn choose(script: &Script, conversation: &Conversation) -> Option<usize> {
    let mut played = vec![0u32; script.turns.len()];
    let mut main_place = 0;
    for (at, said) in conversation.messages.iter().enumerate() {
        if said.by == Speaker::Assistant {
            match side_turn(script, conversation.before(at), &played) {
                Some(side) => played[side] += 1,
                None => main_place += 1,
            }
        }
    }
    side_turn(script, conversation.view(), &played).or_else(|| {
        let mut main = script.turns.iter().enumerate().filter(|(_, turn)| turn.when.is_none());
        main.nth(main_place).map(|(index, _)| index)
    })
}

fn side_turn(script: &Script, view: View<'_>, played: &[u32]) -> Option<usize> {
    script.turns.iter().enumerate().position(|(index, turn)| {
        let fits = |when: &When| when.times.is_none_or(|times| played[index] < times) && matches(when, view);
        turn.when.as_ref().is_some_and(fits)
    })
}

fn matches(when: &When, view: View<'_>) -> bool {
    let all = |wanted: &Option<String>, holds: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(holds);
    let request = view.conversation;
    all(&when.system_contains, &|text| request.system.contains(text))
        && all(&when.system_not_contains, &|text| !request.system.contains(text))
        && all(&when.model_contains, &|text| request.model.contains(text))
        && all(&when.last_user_contains, &|text| view.last_user_contains(text))
        && all(&when.tool_result_contains, &|text| view.tool_result_contains(text))
        && all(&when.request_contains, &|text| view.contains(text))
        && when.no_tools.is_none_or(|none| request.tools.is_empty() == none)
}

fn holds(expectation: &Expectation, view: View<'_>) -> bool {
    match expectation {
        Expectation::SystemContains(text) => view.conversation.system.contains(text),
        Expectation::RequestContains(text) => view.contains(text),
        Expectation::RequestNotContains(text) => !view.contains(text),
        Expectation::LastUserContains(text) => view.last_user_contains(text),
        Expectation::LastUserNotContains(text) => !view.last_user_contains(text),
        Expectation::ToolResultContains(text) => view.tool_result_contains(text),
        Expectation::ToolResultNotContains(text) => !view.tool_result_contains(text),
    }
}

fn describe(expectation: &Expectation) -> String {
    match expectation {
        Expectation::SystemContains(text) => format!("the system prompt does not contain {text:?}"),
        Expectation::RequestContains(text) => format!("the request does not contain {text:?}"),
        Expectation::RequestNotContains(text) => format!("the request contains {text:?}"),
        Expectation::LastUserContains(text) => format!("the last user message does not contain {text:?}"),
        Expectation::LastUserNotContains(text) => format!("the last user message contains {text:?}"),
        Expectation::ToolResultContains(text) => format!("no tool result contains {text:?}"),
        Expectation::ToolResultNotContains(text) => format!("a tool result contains {text:?}"),
    }
}

fn reply(turn: &Turn, view: View<'_>, delay: Duration) -> Result<Reply, String> {
    let filled = |text: &Option<String>| text.as_deref().map(|text| fill(text, view, Quoting::None));
    let mut blocks: Vec<Block> = Vec::new();
    blocks.extend(filled(&turn.thinking).map(Block::Thinking));
    blocks.extend(filled(&turn.text).map(Block::Text));
    for tool in &turn.tools {
        blocks.push(Block::Tool(render(tool, view)?));
    }
    let stop = match &turn.stop_reason {
        Some(reason) => StopReason::Other(reason.clone()),
        None if turn.tools.is_empty() => StopReason::EndOfTurn,
        None => StopReason::ToolUse,
    };
    let usage = turn.usage.map_or_else(
        || estimate(view.conversation, &blocks),
        |claimed| Usage {
            input_tokens: claimed.input_tokens,
            output_tokens: claimed.output_tokens,
            cache_read_tokens: claimed.cache_read_tokens,
            cache_write_tokens: claimed.cache_write_tokens,
            ..Usage::default()
        },
    );
    Ok(Reply { blocks, stop, usage, delay, chunk_delay: Duration::from_millis(turn.chunk_delay_ms) })
}

fn past_the_end(conversation: &Conversation) -> Reply {
    let blocks = vec![Block::Text(PAST_THE_END.to_owned())];
    let usage = estimate(conversation, &blocks);
    let (delay, chunk_delay) = (Duration::ZERO, Duration::ZERO);
    Reply { blocks, stop: StopReason::EndOfTurn, usage, delay, chunk_delay }
}

/// About four bytes a token.
pub(crate) fn estimate_tokens(size_bytes: usize) -> u64 {
    u64::try_from(size_bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

fn estimate(conversation: &Conversation, blocks: &[Block]) -> Usage {
    let size = |block: &Block| match block {
        Block::Thinking(text) | Block::Text(text) => text.len(),
        Block::Tool(call) => call.name.len() + call.input.to_string().len(),
    };
    Usage {
        input_tokens: estimate_tokens(conversation.size_bytes),
        output_tokens: estimate_tokens(blocks.iter().map(size).sum()),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{OfferedTool, Said};

    fn said(by: Speaker, text: &str, tool_results: &str) -> Said {
        Said { by, text: text.into(), tool_results: tool_results.into() }
    }

    fn asked(history: &[Said]) -> Conversation {
        let tool = |name: &str, keys: &[&str]| OfferedTool {
            name: name.into(),
            properties: keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect(),
            kind: ToolKind::Function,
            namespace: None,
        };
        Conversation {
            model: "m".into(),
            system: "You are an agent".into(),
            messages: history.to_vec(),
            message_count: history.len(),
            tools: vec![tool("Bash", &["command"]), tool("Write", &["file_path", "content"])],
            streamed: false,
            usage_in_stream: false,
            size_bytes: 400,
        }
    }

    fn script(text: &str) -> Script {
        Script::parse(text.as_bytes()).unwrap()
    }

    fn text_of(played: &Played) -> String {
        match played {
            Played::Reply { reply, .. } => match reply.blocks.last() {
                Some(Block::Text(text)) => text.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_place_is_the_number_of_answers_so_far() {
        let script = script("- text: one {{prompt}}\n- text: two {{last_message}}\n");
        let mut history = vec![said(Speaker::User, "hi", "")];
        assert_eq!(text_of(&play(&script, &asked(&history), |_, _| true)), "one hi");
        history.extend([said(Speaker::Assistant, "one", ""), said(Speaker::User, "more", "")]);
        assert_eq!(text_of(&play(&script, &asked(&history), |_, _| true)), "two more");
        history.extend([said(Speaker::Assistant, "two", ""), said(Speaker::User, "x", "")]);
        assert_eq!(text_of(&play(&script, &asked(&history), |_, _| true)), PAST_THE_END);
    }

    #[test]
    fn a_turn_beside_the_main_line_uses_no_place_up() {
        let script =
            script("- text: one\n- text: two\n- {text: steered, when: {last_user_contains: stop}}\n");
        let mut history = vec![said(Speaker::User, "hi", ""), said(Speaker::Assistant, "one", "")];
        history.push(said(Speaker::User, "please stop", ""));
        assert_eq!(text_of(&play(&script, &asked(&history), |_, _| true)), "steered");
        history.extend([said(Speaker::Assistant, "steered", ""), said(Speaker::User, "", "done")]);
        assert_eq!(text_of(&play(&script, &asked(&history), |_, _| true)), "two");
    }

    #[test]
    fn a_failed_expectation_names_itself_and_its_turn() {
        let script = script("- text: one\n  expect:\n    - last_user_contains: magic\n");
        match play(&script, &asked(&[said(Speaker::User, "hi", "")]), |_, _| true) {
            Played::Failed { turn: 1, message } => {
                assert!(message.contains("last user message does not contain \"magic\""), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tools_are_rendered_into_what_is_offered() {
        let script = script(
            "- tools:\n    - shell: echo {{prompt}}\n    - write: {path: a, content: b}\n    - read: c\n",
        );
        let Played::Reply { reply, .. } =
            play(&script, &asked(&[said(Speaker::User, "it's", "")]), |_, _| true)
        else {
            panic!("no reply")
        };
        let described = reply.blocks.iter().map(|block| match block {
            Block::Tool(call) => format!("{} {}", call.name, call.input),
            other => panic!("{other:?}"),
        });
        let inputs: Vec<String> = described.collect();
        let expected = [
            r#"Bash {"command":"echo 'it'\\''s'"}"#,
            r#"Write {"content":"b","file_path":"a"}"#,
            r#"Bash {"command":"cat -- 'c'"}"#,
        ];
        assert_eq!(inputs, expected);
        assert_eq!(reply.stop, StopReason::ToolUse);
    }

    #[test]
    fn a_tool_that_is_not_offered_is_said() {
        let script = script("- tools: [{glob: '*.rs'}]\n");
        match play(&script, &asked(&[said(Speaker::User, "x", "")]), |_, _| true) {
            Played::Failed { message, .. } => {
                assert!(message.contains("Glob") && message.contains("Bash, Write"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_is_given_its_number_of_times() {
        let script = script("- text: at last\n  error: {status: 529, type: overloaded_error, times: 1}\n");
        let request = asked(&[said(Speaker::User, "x", "")]);
        assert!(matches!(play(&script, &request, |_, times| times == 1), Played::Error { .. }));
        assert_eq!(text_of(&play(&script, &request, |_, _| false)), "at last");
    }
}
