//! Where the past ends and the last turns begin.

use serde_json::Value;
use sunaba_llm::{ContentBlock, Message, Role};

use super::bytes;
use crate::text::HeadAndTail;

/// Parts a conversation that is about to be sent: what can be summed up, and the last turns, which begin with an
/// answer of the model and have no more than about `kept_bytes`. None when there is no past to speak of.
pub(super) fn split(messages: &[Message], kept_bytes: u64) -> Option<(Vec<Message>, Vec<Message>)> {
    let answers = || (2..messages.len()).filter(|at| messages[*at].role == Role::Assistant);
    let size = |from: usize| messages[from..].iter().map(|message| bytes(&message.content)).sum::<u64>();
    let begin = answers().find(|from| size(*from) <= kept_bytes).or_else(|| answers().next_back())?;
    let mut kept = messages[begin..].to_vec();
    cut_results(&mut kept, kept_bytes);
    Some((messages[..begin].to_vec(), kept))
}

/// When the very last turn alone is too large: each of its results gets a share. Whether any was cut.
pub(super) fn cut_results(kept: &mut [Message], kept_bytes: u64) -> bool {
    if kept.iter().map(|message| bytes(&message.content)).sum::<u64>() <= kept_bytes {
        return false;
    }
    let results = kept.iter_mut().flat_map(|message| &mut message.content).filter_map(|block| match block {
        ContentBlock::ToolResult { content: Value::String(text), .. } => Some(text),
        _ => None,
    });
    let results: Vec<&mut String> = results.collect();
    let share = usize::try_from(kept_bytes).unwrap_or(usize::MAX) / results.len().max(1);
    let mut is_cut = false;
    for text in results {
        let mut short = HeadAndTail::new(share);
        short.push(text);
        let short = short.finish();
        // The mark of what was left out can be longer than what was.
        if short.len() < text.len() {
            *text = short;
            is_cut = true;
        }
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn conversation(results: &[usize]) -> Vec<Message> {
        let mut messages = vec![Message { role: Role::User, content: vec![ContentBlock::text("go")] }];
        for (number, length) in results.iter().enumerate() {
            let id = format!("t{number}");
            let request = ContentBlock::ToolUse { id: id.clone(), name: "Bash".into(), input: json!({}) };
            messages.push(Message { role: Role::Assistant, content: vec![request] });
            let result = ContentBlock::tool_result(id, "x".repeat(*length), false);
            messages.push(Message { role: Role::User, content: vec![result] });
        }
        messages
    }

    proptest! {
        #[test]
        fn no_request_is_parted_from_its_result(
            results in proptest::collection::vec(0usize..3_000, 0..12),
            kept_bytes in 0u64..9_000,
        ) {
            let messages = conversation(&results);
            let Some((past, kept)) = split(&messages, kept_bytes) else {
                prop_assert!(results.len() < 2);
                return Ok(());
            };
            prop_assert_eq!(past.len() + kept.len(), messages.len());
            prop_assert_eq!(kept[0].role, Role::Assistant);
            prop_assert_eq!(kept[kept.len() - 1].role, Role::User);
            // Only the marks of what was left out may come on top.
            let size: u64 = kept.iter().map(|message| bytes(&message.content)).sum();
            prop_assert!(size <= kept_bytes + 400, "{} of {}", size, kept_bytes);
        }
    }
}
