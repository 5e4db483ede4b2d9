//! Cutting text to size without cutting characters.

/// The first `max_chars` characters, with a mark that says how many are left out.
pub(crate) fn clip(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => {
            let left_out = text[end..].chars().count();
            format!("{}\n[{left_out} characters left out]", &text[..end])
        }
    }
}

/// The beginning and the end of a text that may be endless, in bounded memory.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    half_chars: usize,
    head: String,
    head_chars: usize,
    tail: std::collections::VecDeque<char>,
    left_out: u64,
}

impl HeadAndTail {
    pub(crate) fn new(max_chars: usize) -> Self {
        Self {
            half_chars: max_chars / 2,
            head: String::new(),
            head_chars: 0,
            tail: std::collections::VecDeque::new(),
            left_out: 0,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        for character in text.chars() {
            if self.head_chars < self.half_chars {
                self.head.push(character);
                self.head_chars += 1;
            } else {
                // In this order, so that a tail that may have nothing has nothing.
                self.tail.push_back(character);
                if self.tail.len() > self.half_chars {
                    self.tail.pop_front();
                    self.left_out += 1;
                }
            }
        }
    }

    pub(crate) fn finish(self) -> String {
        let mut whole = self.head;
        if self.left_out > 0 {
            whole.push_str(&format!("\n[{} characters left out]\n", self.left_out));
        }
        whole.extend(self.tail);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_counts_characters_not_bytes() {
        assert_eq!(clip("äöü", 3), "äöü");
        assert_eq!(clip("äöüß", 3), "äöü\n[1 characters left out]");
    }

    #[test]
    fn head_and_tail_keep_both_ends() {
        let mut kept = HeadAndTail::new(6);
        kept.push("abc");
        kept.push("def");
        assert_eq!(kept.finish(), "abcdef");
        let mut kept = HeadAndTail::new(6);
        kept.push("abcXXXXX");
        kept.push("def");
        assert_eq!(kept.finish(), "abc\n[5 characters left out]\ndef");
    }

    #[test]
    fn where_nothing_may_stay_nothing_stays() {
        for max_chars in [0, 1] {
            let mut kept = HeadAndTail::new(max_chars);
            kept.push("abc");
            assert_eq!(kept.finish(), "\n[3 characters left out]\n");
        }
    }
}
