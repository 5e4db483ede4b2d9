//! Grep: lines by regular expression.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;
use regex::bytes::{Regex as LineRegex, RegexBuilder};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::Walk;
use super::{ToolReply, ToolResult, looks_binary, pattern, read_regular, resolve, shown};
use crate::text::clip;

const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
const LINE_MAX_CHARS: usize = 500;
const OUTPUT_MAX_BYTES: usize = 30_000;
const ITEMS_DEFAULT: usize = 250;
const CONTEXT_MAX: usize = 50;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    output_mode: Mode,
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    #[serde(default, rename = "-n")]
    line_numbers: Option<bool>,
    #[serde(default, rename = "-A")]
    after: Option<usize>,
    #[serde(default, rename = "-B")]
    before: Option<usize>,
    #[serde(default, rename = "-C")]
    around: Option<usize>,
    #[serde(default)]
    head_limit: Option<usize>,
}

pub(super) fn run(cwd: &Path, input: &Input, halt: &CancellationToken) -> ToolResult {
    let expression = RegexBuilder::new(&input.pattern)
        .case_insensitive(input.ignore_case)
        .build()
        .map_err(|error| format!("the regular expression cannot be understood: {error}"))?;
    let base = resolve(cwd, input.path.as_deref().unwrap_or_default());
    if !base.exists() {
        return Err(format!("{} does not exist", base.display()));
    }
    let filter = input.glob.as_deref().map(NameFilter::new).transpose()?;
    let mut report = Report::new(cwd, input);
    let mut walk = Walk::new(&base, halt);
    for path in &mut walk {
        if filter.as_ref().is_none_or(|filter| filter.takes(&base, &path)) {
            report.search(&path, &expression);
        }
        if report.is_full() {
            break;
        }
    }
    Ok(ToolReply::ok(report.finish(walk.was_cut())))
}

/// A pattern without `/` is for the file's name, any other for the path from where the search starts.
struct NameFilter {
    pattern: Regex,
    whole_path: bool,
}

impl NameFilter {
    fn new(text: &str) -> Result<Self, String> {
        Ok(Self { pattern: pattern::compile(text.trim_start_matches("./"))?, whole_path: text.contains('/') })
    }

    fn takes(&self, base: &Path, path: &Path) -> bool {
        let name =
            if self.whole_path { path.strip_prefix(base).ok() } else { path.file_name().map(Path::new) };
        name.is_some_and(|name| self.pattern.is_match(&name.to_string_lossy()))
    }
}

/// What was found so far, in the form that was asked for.
struct Report<'a> {
    cwd: &'a Path,
    input: &'a Input,
    limit: usize,
    items: usize,
    text: String,
    too_large: Vec<PathBuf>,
}

impl<'a> Report<'a> {
    fn new(cwd: &'a Path, input: &'a Input) -> Self {
        let limit = input.head_limit.filter(|limit| *limit > 0).unwrap_or(ITEMS_DEFAULT);
        Self { cwd, input, limit, items: 0, text: String::new(), too_large: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.items >= self.limit || self.text.len() >= OUTPUT_MAX_BYTES
    }

    fn search(&mut self, path: &Path, expression: &LineRegex) {
        let name = shown(self.cwd, path);
        let Ok(bytes) = read_regular(path, &name, FILE_MAX_BYTES) else {
            // Gone, closed to us, or too large: only the last is worth a word.
            if path.metadata().is_ok_and(|metadata| metadata.len() > FILE_MAX_BYTES) {
                self.too_large.push(path.to_owned());
            }
            return;
        };
        if looks_binary(&bytes) {
            return;
        }
        let lines: Vec<&[u8]> = split_lines(&bytes);
        let matching: Vec<usize> =
            (0..lines.len()).filter(|index| expression.is_match(lines[*index])).collect();
        if matching.is_empty() {
            return;
        }
        match self.input.output_mode {
            Mode::FilesWithMatches => self.item(&name),
            Mode::Count => self.item(&format!("{name}:{}", matching.len())),
            Mode::Content => self.content(&name, &lines, &matching),
        }
    }

    fn item(&mut self, line: &str) {
        self.items += 1;
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn content(&mut self, name: &str, lines: &[&[u8]], matching: &[usize]) {
        let context = |side: Option<usize>| side.or(self.input.around).unwrap_or(0).min(CONTEXT_MAX);
        let (before, after) = (context(self.input.before), context(self.input.after));
        let mut next_unshown = 0;
        for &found in matching {
            let from = found.saturating_sub(before).max(next_unshown);
            let to = (found + after + 1).min(lines.len());
            if before + after > 0 && from > next_unshown && next_unshown > 0 {
                self.text.push_str("--\n");
            }
            for (index, line) in lines.iter().enumerate().take(to).skip(from) {
                if self.is_full() {
                    return;
                }
                let mark = if matching.binary_search(&index).is_ok() { ':' } else { '-' };
                let numbered = self.input.line_numbers.unwrap_or(true);
                let number = if numbered { format!("{}{mark}", index + 1) } else { String::new() };
                let words = clip(&String::from_utf8_lossy(line), LINE_MAX_CHARS);
                self.item(&format!("{name}{mark}{number}{words}"));
            }
            next_unshown = next_unshown.max(to);
        }
    }

    fn finish(mut self, walk_was_cut: bool) -> String {
        if self.items == 0 {
            self.text.push_str("nothing matches\n");
        }
        if self.is_full() || walk_was_cut {
            self.text.push_str("(cut here; narrow the search, or raise head_limit)\n");
        }
        if !self.too_large.is_empty() {
            let _ = writeln!(self.text, "({} files too large to search)", self.too_large.len());
        }
        self.text
    }
}

fn split_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> =
        bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}
