//! What an agent keeps of a conversation: a directory for each, and its files as one transcript.
//!
//! A transcript is a line of JSON that names the agent, its session and its files with their sizes, and then the
//! files' bytes, one after the other.

use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::preset::Preset;
use crate::Transcript;

/// Of a conversation that is read as a whole.
const TRANSCRIPT_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Where the agent's own name of the session is kept.
const NAME_FILE: &str = "session";

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    agent: String,
    session: String,
    files: Vec<File>,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    path: String,
    size_bytes: usize,
}

/// What the agent keeps of this conversation is here and nowhere else, so that a fork touches nothing of the first.
pub(super) fn dir(home: &Path, preset: &Preset, session_id: &str) -> PathBuf {
    home.join(preset.known.name).join(session_id)
}

/// Keeps the agent's own name of the session.
pub(super) fn keep_name(dir: &Path, session: &str) -> Result<()> {
    std::fs::write(dir.join(NAME_FILE), session)
}

/// The agent's own name of the session; none when it never had one.
pub(super) fn name(dir: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(dir.join(NAME_FILE)) {
        Ok(name) => Ok(Some(name)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The conversation as it lies there.
pub(super) fn find(dir: &Path, preset: &Preset) -> Result<Option<Transcript>> {
    let Some(session) = name(dir)? else { return Ok(None) };
    let mut files = Vec::new();
    let mut bytes = Vec::new();
    for path in kept(dir, preset) {
        let content = std::fs::read(&path)?;
        if (bytes.len() + content.len()) as u64 > TRANSCRIPT_MAX_BYTES {
            let reason = format!("the transcript has more than {TRANSCRIPT_MAX_BYTES} bytes");
            return Err(Error::new(ErrorKind::FileTooLarge, reason));
        }
        let path = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
        files.push(File { path, size_bytes: content.len() });
        bytes.extend(content);
    }
    let mut whole = serde_json::to_vec(&Head { agent: preset.known.name.to_owned(), session, files })?;
    whole.push(b'\n');
    whole.extend(bytes);
    Ok(Some(Transcript::new(whole)))
}

/// Lays a conversation where the agent looks for it; its own name of the session.
pub(super) fn put(dir: &Path, preset: &Preset, transcript: &Transcript) -> Result<String> {
    let broken = |reason: &str| Error::new(ErrorKind::InvalidData, reason.to_owned());
    let bytes = transcript.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken("it has no beginning"))?;
    let head: Head = serde_json::from_slice(&bytes[..end])?;
    if head.agent != preset.known.name {
        return Err(broken(&format!("it is of another agent: {}", head.agent)));
    }
    let mut rest = &bytes[end + 1..];
    for file in &head.files {
        let path = Path::new(&file.path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(broken("a file of it lies elsewhere"));
        }
        let (content, after) =
            rest.split_at_checked(file.size_bytes).ok_or_else(|| broken("it is cut off"))?;
        rest = after;
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    keep_name(dir, &head.session)?;
    Ok(head.session)
}

/// The files that hold conversations, in an order that does not change.
fn kept(dir: &Path, preset: &Preset) -> Vec<PathBuf> {
    let begins = |path: &Path| {
        let path = path.strip_prefix(dir).unwrap_or(path).to_string_lossy().into_owned();
        preset.keeps.iter().any(|beginning| path.starts_with(beginning))
    };
    WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.file_type().is_file() && begins(entry.path()))
        .map(walkdir::DirEntry::into_path)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AcpAgent;

    #[test]
    fn what_was_found_can_be_laid_elsewhere() {
        let preset = AcpAgent::OpenCode.preset();
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(find(here.path(), preset).unwrap(), None);
        keep_name(here.path(), "ses_1").unwrap();
        let data = here.path().join("data/opencode");
        std::fs::create_dir_all(data.join("log")).unwrap();
        for (name, content) in [("opencode.db", &b"a\n\0b"[..]), ("opencode.db-wal", b""), ("log/x", b"no")] {
            std::fs::write(data.join(name), content).unwrap();
        }
        let transcript = find(here.path(), preset).unwrap().unwrap();
        assert_eq!(put(there.path(), preset, &transcript).unwrap(), "ses_1");
        assert_eq!(find(there.path(), preset).unwrap(), Some(transcript.clone()));
        assert_eq!(std::fs::read(there.path().join("data/opencode/opencode.db")).unwrap(), b"a\n\0b");
        assert!(!there.path().join("data/opencode/log").exists());
        assert!(put(there.path(), AcpAgent::Codex.preset(), &transcript).is_err(), "of another agent");
    }

    #[test]
    fn nothing_is_laid_outside() {
        let dir = tempfile::tempdir().unwrap();
        let preset = AcpAgent::Codex.preset();
        for path in ["../x", "/x", "sessions/../../x"] {
            let files = vec![File { path: path.to_owned(), size_bytes: 1 }];
            let head = Head { agent: "codex".to_owned(), session: "s".to_owned(), files };
            let bytes = [serde_json::to_vec(&head).unwrap(), b"\nx".to_vec()].concat();
            assert!(put(dir.path(), preset, &Transcript::new(bytes)).is_err(), "{path}");
        }
        let cut = br#"{"agent":"codex","session":"s","files":[{"path":"a","size_bytes":9}]}"#;
        assert!(put(dir.path(), preset, &Transcript::new([&cut[..], b"\nx"].concat())).is_err());
    }
}
