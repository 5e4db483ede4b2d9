//! How subscribers name the event types they want.
//!
//! Names compare without regard to case, with `.` and `_` alike, so that
//! `SANDBOX_AGENT_TOOL_USE` matches the published `SANDBOX_agent.tool_use`.

/// The form in which two names are compared.
pub fn normalise(name: &str) -> String {
    name.chars().map(|c| if c == '.' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Splits a comma list, dropping blanks.
pub fn split_list(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Whether `pattern` (a name, or a prefix ending in `*`) covers `event_type`, letter by letter.
pub fn covers(pattern: &str, event_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => event_type.starts_with(prefix),
        None => pattern == event_type,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_dots_do_not_matter() {
        assert_eq!(normalise("SANDBOX_agent.tool_use"), normalise("SANDBOX_AGENT_TOOL_USE"));
    }

    #[test]
    fn a_star_covers_a_prefix() {
        assert!(covers("agent.*", "agent.message"));
        assert!(!covers("agent.*", "spec.progress"));
        assert!(!covers("agent", "agent.message"));
    }
}
