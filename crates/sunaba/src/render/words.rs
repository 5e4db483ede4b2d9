//! Small ways of saying things: durations, ages, shortened text.

use sunaba_types::Timestamp;

/// At most `most` characters; what is left out is marked.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(most.saturating_sub(1)).collect();
    shown.push('…');
    shown
}

/// A number with its noun.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A duration as a person says it.
pub(crate) fn duration(milliseconds: i64) -> String {
    let tenths = milliseconds.max(0) / 100;
    match tenths {
        ..10 => format!("{} ms", milliseconds.max(0)),
        10..600 => format!("{}.{} s", tenths / 10, tenths % 10),
        600..36_000 => format!("{} min {} s", tenths / 600, tenths % 600 / 10),
        _ => format!("{} h {} min", tenths / 36_000, tenths % 36_000 / 600),
    }
}

/// An amount of money: whole cents, or more digits where there are none.
pub(crate) fn dollars(usd: f64) -> String {
    match usd {
        usd if usd <= 0.0 => "$0".to_owned(),
        usd if usd < 0.01 => format!("${usd:.4}"),
        usd => format!("${usd:.2}"),
    }
}

/// How long ago something was.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        let said: Vec<String> = [5, 999, 2_150, 61_000, 3_700_000].into_iter().map(duration).collect();
        assert_eq!(said, ["5 ms", "999 ms", "2.1 s", "1 min 1 s", "1 h 1 min"]);
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcd", 4), "abcd");
        assert_eq!(counted(1, "turn", "turns"), "1 turn");
        assert_eq!(counted(0, "turn", "turns"), "0 turns");
        assert_eq!([0.0, 0.0012, 1.5].map(dollars), ["$0", "$0.0012", "$1.50"]);
    }
}
