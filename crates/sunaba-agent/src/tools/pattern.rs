//! File name patterns: `*`, `?`, `**`, `[a-z]`, `[!a]`, `{a,b}` and `\` before a character.

use regex::Regex;

const PATTERN_MAX_CHARS: usize = 4096;

/// A pattern for paths with `/` between their parts.
///
/// # Errors
/// When it cannot be understood, in words for the model.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.chars().count() > PATTERN_MAX_CHARS {
        return Err(format!("the pattern is longer than {PATTERN_MAX_CHARS} characters"));
    }
    let expression = translate(pattern)?;
    Regex::new(&expression).map_err(|_| format!("the pattern {pattern:?} cannot be understood"))
}

fn translate(pattern: &str) -> Result<String, String> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut expression = String::from("^");
    let mut depth = 0_usize;
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        at += match rest {
            ['*', '*', '/', ..] => push(&mut expression, "(?:.*/)?", 3),
            ['*', '*', ..] => push(&mut expression, ".*", 2),
            ['*', ..] => push(&mut expression, "[^/]*", 1),
            ['?', ..] => push(&mut expression, "[^/]", 1),
            ['\\', next, ..] => push(&mut expression, &regex::escape(&next.to_string()), 2),
            ['[', ..] => push_class(&mut expression, rest),
            ['{', ..] => {
                depth += 1;
                push(&mut expression, "(?:", 1)
            }
            ['}', ..] if depth > 0 => {
                depth -= 1;
                push(&mut expression, ")", 1)
            }
            [',', ..] if depth > 0 => push(&mut expression, "|", 1),
            [other, ..] => push(&mut expression, &regex::escape(&other.to_string()), 1),
            [] => break,
        };
    }
    if depth > 0 {
        return Err(format!("the pattern {pattern:?} has a {{ without its }}"));
    }
    expression.push('$');
    Ok(expression)
}

/// Adds to the expression and says how many characters of the pattern that was.
fn push(expression: &mut String, more: &str, taken: usize) -> usize {
    expression.push_str(more);
    taken
}

/// A class of characters; a bracket that is never closed stands for itself.
fn push_class(expression: &mut String, rest: &[char]) -> usize {
    let negated = matches!(rest.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    let Some(length) = rest.iter().skip(start + 1).position(|character| *character == ']') else {
        return push(expression, "\\[", 1);
    };
    let end = start + 1 + length;
    expression.push_str(if negated { "[^/" } else { "[" });
    for character in &rest[start..end] {
        match character {
            '-' => expression.push('-'),
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push(']');
    end + 1
}

/// The longest leading path without any special character, and the pattern from there on.
pub(super) fn split_base(pattern: &str) -> (&str, &str) {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..special].rfind('/') {
        Some(0) => ("/", &pattern[1..]),
        Some(slash) => (&pattern[..slash], &pattern[slash + 1..]),
        None => ("", pattern),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "src/a.rs", false),
            ("**/*.rs", "a.rs", true),
            ("**/*.rs", "src/deep/a.rs", true),
            ("src/**", "src/deep/a.rs", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("[a-c].txt", "b.txt", true),
            ("[!a-c].txt", "b.txt", false),
            ("*.{ts,tsx}", "x.tsx", true),
            ("*.{ts,tsx}", "x.js", false),
            ("a.b", "axb", false),
            (r"\*", "*", true),
            ("[", "[", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(path), expected, "{pattern} on {path}");
        }
        assert!(compile("{a").is_err());
    }

    #[test]
    fn the_plain_beginning_is_where_the_search_starts() {
        assert_eq!(split_base("src/deep/*.rs"), ("src/deep", "*.rs"));
        assert_eq!(split_base("**/*.rs"), ("", "**/*.rs"));
        assert_eq!(split_base("/etc/host*"), ("/etc", "host*"));
        assert_eq!(split_base("/*"), ("/", "*"));
        assert_eq!(split_base("a/b"), ("a", "b"));
    }

    proptest! {
        #[test]
        fn no_pattern_breaks_the_translation(pattern in "[-a-c/*?\\[\\]{},!^\\\\.]{0,24}") {
            let _ = compile(&pattern);
        }

        #[test]
        fn a_plain_name_matches_itself_only(name in "[a-z+.()|$]{1,12}", other in "[a-z+.()|$]{1,12}") {
            let compiled = compile(&name).unwrap();
            prop_assert!(compiled.is_match(&name));
            prop_assert_eq!(compiled.is_match(&other), name == other);
        }
    }
}
