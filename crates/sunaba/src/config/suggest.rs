//! Finds what somebody probably meant: the nearest known word by edit distance.

/// The nearest of `known` to `written`, if it is near enough to be a slip of the hand.
pub(super) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    known
        .map(|name| {
            let whole = distance(&written, name);
            // A key in the wrong section (or without one) is the same slip.
            let tail = distance(&last(&written), &last(name)) + 1;
            (whole.min(tail), name)
        })
        .filter(|(distance, name)| *distance <= (name.len() / 3).clamp(1, 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut rows = vec![vec![0_usize; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let change = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            let swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if swapped {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["listen", "log.level", "sandbox.memory_gb", "sandbox.cpu"];

    #[test]
    fn slips_find_their_word() {
        let near = |written| nearest(written, KNOWN.into_iter());
        assert_eq!(near("lisetn"), Some("listen"));
        assert_eq!(near("Listen"), Some("listen"));
        assert_eq!(near("sandbox.memory-gb"), Some("sandbox.memory_gb"));
        assert_eq!(near("memory_gb"), Some("sandbox.memory_gb"));
        assert_eq!(near("log.levle"), Some("log.level"));
        assert_eq!(near("colour"), None);
    }

    #[test]
    fn a_swap_costs_one() {
        assert_eq!(distance("lisetn", "listen"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
