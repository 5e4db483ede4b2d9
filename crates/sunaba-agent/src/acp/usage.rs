//! What was used, where an agent keeps count of it and does not tell.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;
use walkdir::WalkDir;

use super::{AcpAgent, gemini};
use crate::Usage;

/// As the agent's own files have it.
pub(super) fn kept(agent: &AcpAgent, dir: &Path) -> Option<Usage> {
    match agent {
        AcpAgent::Codex => codex(dir),
        AcpAgent::Gemini => Some(gemini::usage(dir)),
        AcpAgent::OpenCode | AcpAgent::ClaudeAdapter | AcpAgent::OpenHands | AcpAgent::Command(_) => None,
    }
}

/// What of it is of an earlier run, where a run counts only its own.
pub(super) fn kept_before(agent: &AcpAgent, dir: &Path) -> Usage {
    match agent {
        AcpAgent::Gemini => gemini::usage(dir),
        AcpAgent::Codex
        | AcpAgent::OpenCode
        | AcpAgent::ClaudeAdapter
        | AcpAgent::OpenHands
        | AcpAgent::Command(_) => Usage::default(),
    }
}

/// What was used after `before`.
pub(super) fn since(before: &Usage, all: &Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(before.output_tokens),
        cache_read_tokens: all.cache_read_tokens.saturating_sub(before.cache_read_tokens),
        cache_write_tokens: all.cache_write_tokens.saturating_sub(before.cache_write_tokens),
    }
}

/// Codex writes the count of the whole session after every call.
fn codex(dir: &Path) -> Option<Usage> {
    let files = WalkDir::new(dir.join("sessions")).into_iter().filter_map(Result::ok);
    let file = files.filter(|entry| entry.file_type().is_file()).last()?;
    let lines = BufReader::new(std::fs::File::open(file.path()).ok()?).lines().map_while(Result::ok);
    let total = lines
        .filter(|line| line.contains("total_token_usage"))
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
        .filter_map(|line| line.pointer("/payload/info/total_token_usage").cloned())
        .last()?;
    let number = |name: &str| total.get(name).and_then(Value::as_u64).unwrap_or(0);
    let cached = number("cached_input_tokens");
    Some(Usage {
        input_tokens: number("input_tokens").saturating_sub(cached),
        output_tokens: number("output_tokens"),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
    })
}
