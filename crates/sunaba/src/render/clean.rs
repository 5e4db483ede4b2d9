//! Makes text harmless for a terminal: control characters become visible signs.

/// Text of several lines: line feeds and tabs stay, everything else that controls becomes visible.
pub(crate) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => shown.push('\n'),
            '\t' => shown.push_str("    "),
            other => push_visible(&mut shown, other),
        }
    }
    shown
}

/// Text that must stay on one line: line feeds become visible too.
pub(crate) fn clean_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            other => push_visible(&mut shown, other),
        }
    }
    shown
}

fn push_visible(shown: &mut String, letter: char) {
    match letter {
        // The signs for control characters stand in the same order from U+2400.
        '\0'..='\u{1f}' => shown.push(char::from_u32(0x2400 + u32::from(letter)).unwrap_or('?')),
        '\u{7f}' => shown.push('␡'),
        // A terminal takes C1 characters as escape sequences of one letter.
        '\u{80}'..='\u{9f}' => shown.push('�'),
        // Marks that turn the direction of writing can make a line read as something else.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.push('�'),
        // Line separators that some terminals break at.
        '\u{2028}' | '\u{2029}' => shown.push(' '),
        plain => shown.push(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_controls_a_terminal_gets_through() {
        let nasty = "a\x1b[2Jb\x1b]0;title\x07c\u{9b}31md\u{202e}e\x7ff\0g\rh\r\ni\tj";
        let shown = clean(nasty);
        assert_eq!(shown, "a␛[2Jb␛]0;title␇c�31md�e␡f␀g␍h\ni    j");
        assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()));
        assert_eq!(clean_line("a\nb"), "a⏎b");
    }

    #[test]
    fn every_single_character_is_harmless() {
        for letter in (0..=0x10_ffff).filter_map(char::from_u32) {
            let shown = clean_line(&letter.to_string());
            assert!(!shown.chars().any(char::is_control), "{letter:?} gave {shown:?}");
        }
    }
}
