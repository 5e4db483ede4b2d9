//! Reads the data files and refuses what does not fit together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Error, values};

const RULES: &str = include_str!("rules.txt");
const RULES_FILE: &str = "rules.txt";
const NUMBERS: &str = include_str!("numbers.txt");
const NUMBERS_FILE: &str = "numbers.txt";
const ARGUMENTS_MAX: u8 = 6;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Allow,
    /// The program gets this error.
    Refuse(u16),
}

/// Operation not permitted.
const EPERM: u16 = 1;
/// There is no such call.
pub(super) const ENOSYS: u16 = 38;
/// There is no such protocol.
const EPROTONOSUPPORT: u16 = 93;
/// There is no such address family.
const EAFNOSUPPORT: u16 = 97;

/// How an argument is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// Any of these bits is set.
    Has,
    /// Its lower half is one of these.
    In,
    /// Its lower half is none of these.
    NotIn,
}

/// What is asked about one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) argument: u8,
    /// The bits that are looked at; none means the lower half.
    pub(super) mask: Option<u64>,
    pub(super) test: Test,
    pub(super) values: Vec<u64>,
}

impl Part {
    /// What the bits of a mask are when it is so.
    pub(super) fn refused_under(&self, mask: u64) -> Vec<u64> {
        let mut all = Vec::new();
        let mut bits = mask;
        // Every subset of the mask, from all of its bits down to none.
        loop {
            all.push(bits);
            if bits == 0 {
                break;
            }
            bits = (bits - 1) & mask;
        }
        all.retain(|bits| self.values.contains(bits) == (self.test == Test::In));
        all
    }
}

/// When some uses of an allowed call are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// All of them are so.
    pub(super) parts: Vec<Part>,
    /// What those uses get.
    pub(super) errno: u16,
}

/// The numbers of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) x86_64: Option<i64>,
    pub(super) aarch64: Option<i64>,
}

/// Everything decided about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) numbers: Numbers,
    pub(super) verdict: Verdict,
    /// Each of them refuses.
    pub(super) unless: Vec<Condition>,
}

/// Every call by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules(pub(super) BTreeMap<String, Rule>);

impl Rules {
    /// Those of this program.
    pub(super) fn built_in() -> Result<Self, Error> {
        Self::read(NUMBERS, RULES)
    }

    pub(super) fn read(numbers: &str, rules: &str) -> Result<Self, Error> {
        let numbers = read_numbers(numbers)?;
        let mut plain: BTreeMap<&str, Verdict> = BTreeMap::new();
        let mut conditions: BTreeMap<&str, Vec<Condition>> = BTreeMap::new();
        for (number, line) in meaningful(rules) {
            let bad = |what: String| Error::Line { file: RULES_FILE, line: number, what };
            let Line { verdict, names, condition } = read_line(line).map_err(bad)?;
            for name in names {
                let known = numbers.contains_key(name);
                let twice = match &condition {
                    Some(condition) => add(conditions.entry(name).or_default(), condition.clone()),
                    None => plain.insert(name, verdict).is_some(),
                };
                match (known, twice) {
                    (false, _) => return Err(bad(format!("{name} is not in {NUMBERS_FILE}"))),
                    (true, true) => return Err(bad(format!("{name} is decided twice"))),
                    (true, false) => {}
                }
            }
        }
        join(numbers, &plain, conditions)
    }
}

/// Adds a condition; whether it was there before.
fn add(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let twice = conditions.iter().any(|condition| condition.parts == new.parts);
    conditions.push(new);
    twice
}

/// Puts together what was read; every call must be decided, and only an allowed one has exceptions.
fn join(
    numbers: BTreeMap<&str, Numbers>,
    plain: &BTreeMap<&str, Verdict>,
    mut conditions: BTreeMap<&str, Vec<Condition>>,
) -> Result<Rules, Error> {
    let mut all = BTreeMap::new();
    for (name, numbers) in numbers {
        let verdict = *plain
            .get(name)
            .ok_or_else(|| Error::Whole(format!("{name} is in {NUMBERS_FILE} and not in {RULES_FILE}")))?;
        let unless = conditions.remove(name).unwrap_or_default();
        if !unless.is_empty() && verdict != Verdict::Allow {
            return Err(Error::Whole(format!("{name} has a condition and is not allowed anyway")));
        }
        all.insert(name.to_owned(), Rule { numbers, verdict, unless });
    }
    Ok(Rules(all))
}

/// A line of the rules.
struct Line<'a> {
    verdict: Verdict,
    names: Vec<&'a str>,
    condition: Option<Condition>,
}

fn read_line(line: &str) -> Result<Line<'_>, String> {
    let (rule, reason) = line.split_once(" : ").ok_or("there is no reason after ` : `")?;
    if reason.trim().is_empty() {
        return Err("the reason is empty".to_owned());
    }
    let (rule, condition) = match rule.split_once(" when ") {
        Some((rule, condition)) => (rule, Some(condition)),
        None => (rule, None),
    };
    let mut words = rule.split_whitespace();
    let verdict = match words.next() {
        Some("allow") => Verdict::Allow,
        Some("eperm") => Verdict::Refuse(EPERM),
        Some("enosys") => Verdict::Refuse(ENOSYS),
        Some("eafnosupport") => Verdict::Refuse(EAFNOSUPPORT),
        Some("eprotonosupport") => Verdict::Refuse(EPROTONOSUPPORT),
        other => return Err(format!("unknown action {}", other.unwrap_or_default())),
    };
    let names: Vec<_> = words.collect();
    if names.is_empty() {
        return Err("no call is named".to_owned());
    }
    let condition = match (condition, verdict) {
        (None, _) => None,
        (Some(text), Verdict::Refuse(errno)) => Some(read_condition(text, errno)?),
        (Some(_), Verdict::Allow) => return Err("a condition refuses; it cannot allow".to_owned()),
    };
    Ok(Line { verdict, names, condition })
}

fn read_condition(text: &str, errno: u16) -> Result<Condition, String> {
    let parts = text.split(" and ").map(read_part).collect::<Result<Vec<_>, _>>()?;
    Ok(Condition { parts, errno })
}

fn read_part(text: &str) -> Result<Part, String> {
    let mut words = text.split_whitespace();
    let (argument, mask) = read_argument(words.next().unwrap_or_default())?;
    let test = match words.next() {
        Some("has") if mask.is_none() => Test::Has,
        Some("in") => Test::In,
        Some("not-in") => Test::NotIn,
        other => return Err(format!("unknown condition {}", other.unwrap_or_default())),
    };
    let values = words
        .map(|word| values::find(word).ok_or_else(|| format!("unknown value {word}")))
        .collect::<Result<Vec<_>, _>>()?;
    let distinct: BTreeSet<_> = values.iter().collect();
    if values.is_empty() || distinct.len() != values.len() {
        return Err("a condition needs values, each once".to_owned());
    }
    if mask.is_some_and(|mask| values.iter().any(|value| value & !mask != 0)) {
        return Err("a value has bits that are not looked at".to_owned());
    }
    Ok(Part { argument, mask, test, values })
}

/// `arg0` to `arg5`, and after `&` the bits that count.
fn read_argument(word: &str) -> Result<(u8, Option<u64>), String> {
    let (argument, mask) = match word.split_once('&') {
        Some((argument, mask)) => (argument, Some(mask)),
        None => (word, None),
    };
    let argument = argument
        .strip_prefix("arg")
        .and_then(|digits| digits.parse().ok())
        .filter(|argument| *argument < ARGUMENTS_MAX)
        .ok_or("a condition begins with arg0 to arg5")?;
    let mask = mask.map(|mask| {
        // Every combination of them is gone through.
        let few =
            values::find(mask).filter(|bits| *bits <= 0xffff_ffff && (1..=8).contains(&bits.count_ones()));
        few.ok_or_else(|| format!("{mask} is not one to eight bits of the lower half"))
    });
    Ok((argument, mask.transpose()?))
}

fn read_numbers(text: &str) -> Result<BTreeMap<&str, Numbers>, Error> {
    let mut numbers = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (line, content) in meaningful(text) {
        let bad = |what: &str| Error::Line { file: NUMBERS_FILE, line, what: what.to_owned() };
        let words: Vec<_> = content.split_whitespace().collect();
        let [name, x86_64, aarch64] = words[..] else {
            return Err(bad("expected a name and two numbers"));
        };
        let mut number = |architecture: char, word: &str| match word {
            "-" => Ok(None),
            digits => {
                let number: u32 = digits.parse().map_err(|_| bad("not a number"))?;
                let free = taken.insert((architecture, number));
                if free { Ok(Some(i64::from(number))) } else { Err(bad("this number is taken")) }
            }
        };
        let one = Numbers { x86_64: number('x', x86_64)?, aarch64: number('a', aarch64)? };
        if numbers.insert(name, one).is_some() {
            return Err(bad("this name is there twice"));
        }
    }
    Ok(numbers)
}

/// Lines that are neither empty nor comments, counted from 1.
fn meaningful(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME_NUMBERS: &str = "read 0 63\nmount 165 40\nclone 56 220\n";
    const SOME_RULES: &str =
        "allow read clone : files\neperm mount : walls\neperm clone when arg0 has 1 : parts\n";

    #[test]
    fn the_built_in_rules_are_whole() {
        let rules = Rules::built_in().unwrap();
        assert!(rules.0.len() > 350, "{}", rules.0.len());
        let refused = rules.0.values().filter(|rule| rule.verdict != Verdict::Allow).count();
        assert!((80..150).contains(&refused), "{refused}");
    }

    #[test]
    fn a_small_pair_of_files_is_understood() {
        let rules = Rules::read(SOME_NUMBERS, SOME_RULES).unwrap();
        assert_eq!(rules.0["mount"].verdict, Verdict::Refuse(EPERM));
        assert_eq!(rules.0["read"].unless, []);
        let part = Part { argument: 0, mask: None, test: Test::Has, values: vec![1] };
        assert_eq!(rules.0["clone"].unless, [Condition { parts: vec![part], errno: EPERM }]);
    }

    #[test]
    fn a_condition_may_look_at_several_arguments_and_a_call_may_have_several() {
        let added = "eprotonosupport clone when arg0 in 2 3 and arg1&0xf not-in 1 2 : more";
        let rules = Rules::read(SOME_NUMBERS, &format!("{SOME_RULES}{added}\n")).unwrap();
        let [_, condition] = &rules.0["clone"].unless[..] else { panic!("{rules:?}") };
        let parts = vec![
            Part { argument: 0, mask: None, test: Test::In, values: vec![2, 3] },
            Part { argument: 1, mask: Some(0xf), test: Test::NotIn, values: vec![1, 2] },
        ];
        assert_eq!(*condition, Condition { parts, errno: EPROTONOSUPPORT });
    }

    #[test]
    fn what_does_not_fit_is_refused_and_named() {
        for (added, complaint) in [
            ("allow dance : why not", "line 4: dance is not in numbers.txt"),
            ("eperm read : again", "line 4: read is decided twice"),
            ("eperm clone when arg0 has 1 : again", "line 4: clone is decided twice"),
            ("eperm mount when arg0 in 3 : parts", "mount has a condition and is not allowed anyway"),
            ("permit read : x", "unknown action permit"),
            ("allow read", "no reason"),
            ("allow read :  ", "no reason"),
            ("allow : x", "no call is named"),
            ("allow read when arg0 in 1 : x", "cannot allow"),
            ("eperm read when arg6 in 1 : x", "arg0 to arg5"),
            ("eperm read when arg0 like 1 : x", "unknown condition like"),
            ("eperm read when arg0 in AF_NONE : x", "unknown value AF_NONE"),
            ("eperm read when arg0 in : x", "needs values"),
            ("eperm read when arg0 in 1 0x1 : x", "each once"),
            ("eperm read when arg0 in 1 and arg1 : x", "unknown condition"),
            ("eperm read when arg0 in 1 and : x", "unknown value and"),
            ("eperm read when arg0&0 in 1 : x", "not one to eight bits"),
            ("eperm read when arg0&0xffff in 1 : x", "not one to eight bits"),
            ("eperm read when arg0&0xf in 0x10 : x", "bits that are not looked at"),
            ("eperm read when arg0&0xf has 1 : x", "unknown condition has"),
        ] {
            let error = Rules::read(SOME_NUMBERS, &format!("{SOME_RULES}{added}\n")).unwrap_err().to_string();
            assert!(error.contains(complaint), "{added}: {error}");
        }
        for (numbers, complaint) in [
            ("read 0 63\nread 1 64\n", "there twice"),
            ("read 0 63\nwrite 0 64\n", "taken"),
            ("read 0\n", "two numbers"),
            ("read x 1\n", "not a number"),
            ("read 0 63\nwrite 1 64\n", "write is in numbers.txt and not in rules.txt"),
        ] {
            let error = Rules::read(numbers, "allow read : x\n").unwrap_err().to_string();
            assert!(error.contains(complaint), "{numbers}: {error}");
        }
    }
}
