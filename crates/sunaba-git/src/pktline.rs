//! The commands at the start of a push, read before git sees them.
//!
//! A push starts with pkt-lines `old new ref` up to a flush; the first also
//! carries capabilities after a NUL. The pack that follows is none of our
//! business. Anything unexpected is refused rather than guessed at.

/// Most ref updates in one push.
pub const MAX_COMMANDS: usize = 100;
/// Most bytes that the commands of one push may take.
pub const MAX_COMMANDS_BYTES: usize = 64 * 1024;

/// One ref that a push wants to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    /// The commit it should be at now; all zeros for a new ref.
    pub old: String,
    /// The commit it should be at afterwards; all zeros for a deletion.
    pub new: String,
    /// The full name of the ref.
    pub name: String,
}

impl RefUpdate {
    /// Whether the ref is to be removed.
    pub fn is_deletion(&self) -> bool {
        self.new.bytes().all(|byte| byte == b'0')
    }
}

/// Everything a push says before its pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceiveCommands {
    /// The refs it wants to change; none in the empty request by which clients probe.
    pub updates: Vec<RefUpdate>,
    /// What the client says it can do.
    pub capabilities: Vec<String>,
    /// How many bytes were read, the flush included.
    pub consumed: usize,
}

impl ReceiveCommands {
    /// Whether the client named this capability.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }
}

/// Why bytes are not the start of a push.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PktError {
    /// More bytes are needed before anything can be said.
    #[error("the push ended before its list of refs did")]
    Incomplete,
    /// A length that is no length.
    #[error("a pkt-line has the impossible length {0:?}")]
    BadLength(String),
    /// A line that is not `old new ref`.
    #[error("a pkt-line does not name an old commit, a new commit and a ref")]
    BadCommand,
    /// Signed pushes are not served.
    #[error("signed pushes are not supported; push without --signed")]
    SignedPush,
    /// Past [`MAX_COMMANDS`] or [`MAX_COMMANDS_BYTES`].
    #[error("a push may change at most {MAX_COMMANDS} refs")]
    TooMany,
}

/// Reads the ref updates at the start of a push.
pub fn parse_receive_commands(bytes: &[u8]) -> Result<ReceiveCommands, PktError> {
    let mut commands = ReceiveCommands::default();
    loop {
        let rest = bytes.get(commands.consumed..).unwrap_or_default();
        if commands.consumed > MAX_COMMANDS_BYTES {
            return Err(PktError::TooMany);
        }
        let Some(line) = next_line(rest)? else {
            commands.consumed += 4;
            return Ok(commands);
        };
        commands.consumed += line.len() + 4;
        read_line(&mut commands, line)?;
    }
}

/// The next line's content, or none for a flush.
pub(crate) fn next_line(bytes: &[u8]) -> Result<Option<&[u8]>, PktError> {
    let header = bytes.get(..4).ok_or(PktError::Incomplete)?;
    let bad = || PktError::BadLength(String::from_utf8_lossy(header).into_owned());
    if !header.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad());
    }
    let text = std::str::from_utf8(header).map_err(|_| bad())?;
    match usize::from_str_radix(text, 16).map_err(|_| bad())? {
        0 => Ok(None),
        1..=4 => Err(bad()),
        length => bytes.get(4..length).map(Some).ok_or(PktError::Incomplete),
    }
}

fn read_line(commands: &mut ReceiveCommands, line: &[u8]) -> Result<(), PktError> {
    let (command, capabilities) = match line.iter().position(|byte| *byte == 0) {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    };
    let command = std::str::from_utf8(command).map_err(|_| PktError::BadCommand)?;
    let command = command.strip_suffix('\n').unwrap_or(command);
    if command == "push-cert" {
        return Err(PktError::SignedPush);
    }
    if let Some(capabilities) = capabilities {
        if !commands.updates.is_empty() {
            return Err(PktError::BadCommand);
        }
        let text = std::str::from_utf8(capabilities).map_err(|_| PktError::BadCommand)?;
        commands.capabilities = text.split_ascii_whitespace().map(str::to_owned).collect();
    }
    if command.strip_prefix("shallow ").is_some_and(is_object_id) {
        return Ok(());
    }
    if commands.updates.len() == MAX_COMMANDS {
        return Err(PktError::TooMany);
    }
    commands.updates.push(read_update(command).ok_or(PktError::BadCommand)?);
    Ok(())
}

fn read_update(command: &str) -> Option<RefUpdate> {
    let (old, rest) = command.split_once(' ')?;
    let (new, name) = rest.split_once(' ')?;
    let well_formed = is_object_id(old)
        && is_object_id(new)
        && old.len() == new.len()
        && !name.is_empty()
        && !name.chars().any(|c| c.is_control() || c == ' ');
    well_formed.then(|| RefUpdate { old: old.to_owned(), new: new.to_owned(), name: name.to_owned() })
}

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Frames bytes as one pkt-line. The caller keeps them under the protocol's 65,516 bytes.
pub(crate) fn pkt_line(content: &[u8]) -> Vec<u8> {
    let mut line = format!("{:04x}", content.len() + 4).into_bytes();
    line.extend_from_slice(content);
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn update(name: &str) -> RefUpdate {
        RefUpdate { old: "0".repeat(40), new: "a".repeat(40), name: name.to_owned() }
    }

    fn encode(updates: &[RefUpdate], capabilities: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, update) in updates.iter().enumerate() {
            let suffix = if index == 0 { format!("\0{capabilities}") } else { String::new() };
            let line = format!("{} {} {}{suffix}", update.old, update.new, update.name);
            bytes.extend(pkt_line(line.as_bytes()));
        }
        bytes.extend(b"0000");
        bytes
    }

    #[test]
    fn a_push_is_read_up_to_its_flush() {
        let updates = vec![update("refs/heads/a"), update("refs/heads/b")];
        let mut bytes = encode(&updates, " report-status side-band-64k");
        let length = bytes.len();
        bytes.extend(b"PACK....");
        let read = parse_receive_commands(&bytes).unwrap();
        assert_eq!((read.updates.clone(), read.consumed), (updates, length));
        assert!(read.has("side-band-64k") && !read.has("atomic"));
    }

    #[test]
    fn the_empty_probe_has_no_updates() {
        assert_eq!(parse_receive_commands(b"0000").unwrap().updates, vec![]);
    }

    #[test]
    fn a_signed_push_and_too_many_refs_are_refused() {
        let signed = pkt_line(b"push-cert\0 report-status\n");
        assert_eq!(parse_receive_commands(&signed), Err(PktError::SignedPush));
        let many: Vec<_> = (0..=MAX_COMMANDS).map(|n| update(&format!("refs/heads/{n}"))).collect();
        assert_eq!(parse_receive_commands(&encode(&many, "")), Err(PktError::TooMany));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            if let Ok(read) = parse_receive_commands(&bytes) {
                prop_assert!(read.consumed <= bytes.len());
                prop_assert!(read.updates.len() <= MAX_COMMANDS);
            }
        }

        #[test]
        fn hostile_lengths_and_near_commands_never_panic(text in "[0-9a-fg]{0,8}[ \0a-f0-9]{0,200}") {
            let _ = parse_receive_commands(text.as_bytes());
        }

        #[test]
        fn what_is_written_is_read_back(names in proptest::collection::vec("refs/heads/[a-z0-9/_-]{1,60}", 0..40)) {
            let updates: Vec<_> = names.iter().map(|name| update(name)).collect();
            let bytes = encode(&updates, " report-status");
            prop_assert_eq!(parse_receive_commands(&bytes).unwrap().updates, updates);
            for cut in (0..bytes.len()).step_by(37) {
                prop_assert_eq!(parse_receive_commands(&bytes[..cut]), Err(PktError::Incomplete));
            }
        }
    }
}
