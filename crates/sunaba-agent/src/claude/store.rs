//! Where the CLI keeps conversations.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::Transcript;

/// Of a conversation that is read as a whole.
const TRANSCRIPT_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// What stands in every conversation in which something was said.
pub(super) const SAID_BY_SOMEBODY: &str = "\"type\":\"user\"";

/// What the CLI calls its configuration; everything that it keeps is in it.
pub(super) fn config_dir(home: &Path) -> PathBuf {
    home.join("claude")
}

/// Puts a conversation where the CLI looks for it when it works in `cwd`.
pub(super) fn put(home: &Path, cwd: &Path, session_id: &str, transcript: &Transcript) -> std::io::Result<()> {
    let path = path(home, cwd, session_id);
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, transcript.as_bytes())
}

pub(super) fn remove(home: &Path, cwd: &Path, session_id: &str) -> std::io::Result<()> {
    std::fs::remove_file(path(home, cwd, session_id))
}

pub(super) fn find(home: &Path, cwd: &Path, session_id: &str) -> std::io::Result<Option<Transcript>> {
    let file = match std::fs::File::open(path(home, cwd, session_id)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(TRANSCRIPT_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TRANSCRIPT_MAX_BYTES {
        let reason = format!("the transcript has more than {TRANSCRIPT_MAX_BYTES} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
    }
    Ok(Some(Transcript::new(bytes)))
}

fn path(home: &Path, cwd: &Path, session_id: &str) -> PathBuf {
    // The CLI asks the system where it is, which follows links.
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let project: String = cwd
        .to_string_lossy()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect();
    config_dir(home).join("projects").join(project).join(format!("{session_id}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_in_the_place_that_the_cli_uses() {
        let home = tempfile::tempdir().unwrap();
        let cwd = Path::new("/no/such_place.d");
        let transcript = Transcript::new(b"{}\n".to_vec());
        assert_eq!(find(home.path(), cwd, "s").unwrap(), None);
        put(home.path(), cwd, "s", &transcript).unwrap();
        assert_eq!(find(home.path(), cwd, "s").unwrap(), Some(transcript));
        assert!(home.path().join("claude/projects/-no-such-place-d/s.jsonl").is_file());
    }
}
