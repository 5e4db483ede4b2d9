//! Branch names: what git allows, and how ours are made.

use crate::{Error, Result};

/// Longest slug made from a title.
const SLUG_MAX_CHARS: usize = 40;
/// How much of a ticket's id stands in a branch name: the random end of a UUIDv7.
const SHORT_ID_CHARS: usize = 8;
/// Longest branch name accepted.
const NAME_MAX_BYTES: usize = 200;

/// Checks a branch name by git's own rules, more narrowly: it never starts
/// with `-` and holds nothing that a shell or a ref pattern would read.
pub fn validate_branch_name(name: &str) -> Result<()> {
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let bad_char = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\\"'`$;&|<>(){}".contains(c);
    let refused = name.is_empty()
        || name.len() > NAME_MAX_BYTES
        || name.starts_with('-')
        || name.ends_with('.')
        || name == "@"
        || name == "HEAD"
        || name.contains("..")
        || name.contains("@{")
        || name.chars().any(bad_char)
        || name.split('/').any(bad_part);
    if refused { Err(Error::BadBranchName(name.to_owned())) } else { Ok(()) }
}

/// A title as a part of a branch name: lower-case words joined by `-`, cut at a word.
pub fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        let joined = slug.len() + word.len() + usize::from(!slug.is_empty());
        if joined > SLUG_MAX_CHARS {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(word);
    }
    if slug.is_empty() {
        // A single word longer than the bound, or no word at all.
        slug = lower.chars().filter(char::is_ascii_alphanumeric).take(SLUG_MAX_CHARS).collect();
    }
    if slug.is_empty() { "work".to_owned() } else { slug }
}

/// The candidates for a ticket's branch, best first.
pub(crate) fn candidates(prefix: &str, ticket_id: &str, title: &str) -> impl Iterator<Item = String> {
    let id: String = ticket_id.chars().filter(char::is_ascii_alphanumeric).collect();
    let short = id[id.len().saturating_sub(SHORT_ID_CHARS)..].to_lowercase();
    let name = format!("{short}-{}", slug(title));
    // A repository with a branch called like the prefix itself (`feature`) cannot hold `feature/…`.
    let forms = [format!("{prefix}/{name}"), format!("{prefix}-{name}")];
    forms
        .into_iter()
        .flat_map(|form| (1..100).map(move |n| if n == 1 { form.clone() } else { format!("{form}-{n}") }))
}

/// Whether two branches cannot exist side by side: equal, or one is a directory of the other.
pub(crate) fn clash(one: &str, other: &str) -> bool {
    let inside = |long: &str, short: &str| {
        long.len() > short.len() && long.starts_with(short) && long.as_bytes()[short.len()] == b'/'
    };
    one == other || inside(one, other) || inside(other, one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_title_becomes_a_slug_cut_at_a_word() {
        assert_eq!(slug("Add a --json flag to `list`!"), "add-a-json-flag-to-list");
        assert_eq!(slug(&"word ".repeat(20)), "word-word-word-word-word-word-word-word");
        assert_eq!(slug("砂場"), "work");
        assert_eq!(slug(&"x".repeat(90)).len(), SLUG_MAX_CHARS);
    }

    #[test]
    fn names_carry_the_end_of_the_ticket_id() {
        let mut names = candidates("feature", "tkt_0198aaaabbbbccccddddeeee12345678", "Say hello");
        assert_eq!(names.next().as_deref(), Some("feature/12345678-say-hello"));
        assert_eq!(names.next().as_deref(), Some("feature/12345678-say-hello-2"));
    }

    #[test]
    fn a_branch_clashes_with_its_own_directory() {
        assert!(clash("feature", "feature/x"));
        assert!(clash("a/b", "a/b"));
        assert!(!clash("feature-x", "feature"));
    }

    #[test]
    fn dangerous_names_are_refused() {
        for bad in ["", "-x", "a..b", "a b", "a/.b", "x.lock", "HEAD", "a//b", "a@{b", "$(x)", "a:b"] {
            assert!(validate_branch_name(bad).is_err(), "{bad:?}");
        }
        for good in ["main", "feature/1-x", "fix/ä"] {
            assert!(validate_branch_name(good).is_ok(), "{good:?}");
        }
    }

    proptest! {
        #[test]
        fn every_candidate_is_a_valid_name(title in ".{0,200}", id in "[a-zA-Z0-9_.:-]{0,100}") {
            for name in candidates("fix", &id, &title).take(3) {
                prop_assert!(validate_branch_name(&name).is_ok(), "{}", name);
            }
        }
    }
}
