//! The rules as Docker reads them.
//!
//! Docker's rules name uses that are allowed, ours uses that are refused: what is left of a call when its refused
//! uses are taken away is cut into pieces that can be named. A refused use of an allowed call gets ENOSYS there, as
//! everything does that is not named, instead of its own error. Daemons before version 23 know no default error and
//! say EPERM; where that would matter (`clone3`, which C libraries give up only for ENOSYS) the rule names its error
//! itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::rules::{Condition, ENOSYS, Part, Rules, Test, Verdict};

/// The half of an argument that the kernel looks at.
const LOWER_HALF: u64 = 0xffff_ffff;

pub(super) fn profile(rules: &Rules) -> String {
    let mut plain: BTreeMap<Verdict, Vec<&str>> = BTreeMap::new();
    let mut calls = Vec::new();
    for (name, rule) in &rules.0 {
        if rule.unless.is_empty() {
            plain.entry(rule.verdict).or_default().push(name);
            continue;
        }
        let refused: Vec<Vec<Question>> = rule.unless.iter().map(questions).collect();
        let allowed = allowed_uses(&refused).into_iter();
        calls.extend(allowed.map(|args| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": args})));
    }
    calls.extend(plain.into_iter().map(|(verdict, names)| match verdict {
        Verdict::Allow => json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        Verdict::Refuse(errno) => json!({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno}),
    }));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": calls,
    })
    .to_string()
}

/// Which bits of which argument.
type Place = (u8, u64);

/// A part of a condition: it is so when the bits at a place are among these values, or when they are not.
#[derive(Debug, Clone)]
struct Question {
    place: Place,
    values: BTreeSet<u64>,
    is_among: bool,
}

fn questions(condition: &Condition) -> Vec<Question> {
    condition.parts.iter().map(question).collect()
}

fn question(part: &Part) -> Question {
    let (mask, values, is_among) = match part.test {
        // One of these bits is set: together they are not nothing.
        Test::Has => (part.values.iter().fold(0, |all, bit| all | bit), BTreeSet::from([0]), false),
        Test::In => (part.mask.unwrap_or(LOWER_HALF), part.values.iter().copied().collect(), true),
        Test::NotIn => (part.mask.unwrap_or(LOWER_HALF), part.values.iter().copied().collect(), false),
    };
    Question { place: (part.argument, mask), values, is_among }
}

/// The uses that no condition refuses, each as what must hold of its arguments. Every argument is asked about once
/// in a use: a daemon takes two questions about one argument for alternatives.
fn allowed_uses(refused: &[Vec<Question>]) -> Vec<Vec<Value>> {
    if refused.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let Some(place) = refused.first().and_then(|questions| questions.first()).map(|first| first.place) else {
        return vec![Vec::new()];
    };
    let here = || refused.iter().flatten().filter(|question| question.place == place);
    let named: BTreeSet<u64> = here().flat_map(|question| question.values.iter().copied()).collect();
    let mut uses = Vec::new();
    let (argument, mask) = place;
    for value in &named {
        extend(&mut uses, refused, place, Some(*value), &[is(argument, mask, *value)]);
    }
    let others: Vec<Value> =
        without(mask, &named).into_iter().map(|(mask, value)| is(argument, mask, value)).collect();
    extend(&mut uses, refused, place, None, &others);
    uses
}

/// Adds the allowed uses in which the bits at a place have a value, or one that nobody names.
fn extend(
    uses: &mut Vec<Vec<Value>>,
    refused: &[Vec<Question>],
    place: Place,
    value: Option<u64>,
    ways: &[Value],
) {
    let is_so = |question: &Question| {
        value.is_some_and(|value| question.values.contains(&value)) == question.is_among
    };
    // What is left of the conditions once this is known.
    let left: Vec<Vec<Question>> = refused
        .iter()
        .filter(|condition| condition.iter().all(|question| question.place != place || is_so(question)))
        .map(|condition| condition.iter().filter(|question| question.place != place).cloned().collect())
        .collect();
    for rest in allowed_uses(&left) {
        uses.extend(ways.iter().map(|way| [std::slice::from_ref(way), rest.as_slice()].concat()));
    }
}

fn is(argument: u8, mask: u64, value: u64) -> Value {
    json!({"index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"})
}

/// All that the bits of a mask can be but these values, as masks and what is left under them. No two overlap.
fn without(mask: u64, values: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    let mut open = vec![(0, 0)];
    while let Some((seen, prefix)) = open.pop() {
        if !values.iter().any(|value| value & seen == prefix) {
            pieces.push((seen, prefix));
        } else if seen != mask {
            let left = mask & !seen;
            let bit = 1 << (63 - left.leading_zeros());
            open.extend([(seen | bit, prefix | bit), (seen | bit, prefix)]);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_for<'a>(profile: &'a Value, name: &str) -> Vec<&'a Value> {
        let all = profile["syscalls"].as_array().unwrap();
        all.iter().filter(|rule| rule["names"].as_array().unwrap().contains(&json!(name))).collect()
    }

    #[test]
    fn the_profile_says_the_same() {
        let profile: Value = serde_json::from_str(&crate::seccomp::docker_profile()).unwrap();
        assert_eq!(profile["defaultErrnoRet"], 38);
        assert_eq!(rules_for(&profile, "read")[0]["action"], "SCMP_ACT_ALLOW");
        let mount = rules_for(&profile, "mount");
        assert_eq!((mount.len(), &mount[0]["errnoRet"]), (1, &json!(1)));
        let clone3 = rules_for(&profile, "clone3");
        assert_eq!((clone3.len(), &clone3[0]["errnoRet"]), (1, &json!(38)), "not left to the default");
        let clone = rules_for(&profile, "clone");
        assert_eq!((clone.len(), &clone[0]["args"][0]["value"]), (1, &json!(0x7e02_0000)));
        assert_eq!(clone[0]["args"][0]["valueTwo"], 0);
        // Family; family, type and protocol for two of them; family and protocol.
        assert_eq!(rules_for(&profile, "socket").len(), 1 + 2 * 2 * 3 + 1);
        assert_eq!(rules_for(&profile, "read").len(), 1);
    }

    /// What the profile answers, as a daemon reads it: a rule holds when all of its arguments do.
    fn allows(profile: &Value, name: &str, arguments: [u64; 6]) -> bool {
        rules_for(profile, name).into_iter().filter(|rule| rule["action"] == "SCMP_ACT_ALLOW").any(|rule| {
            let all = rule["args"].as_array().cloned().unwrap_or_default();
            let indexes: BTreeSet<u64> = all.iter().map(|arg| arg["index"].as_u64().unwrap()).collect();
            assert_eq!(indexes.len(), all.len(), "asked twice about one argument: {rule}");
            all.iter().all(|arg| {
                assert_eq!(arg["op"], "SCMP_CMP_MASKED_EQ");
                let argument = arguments[usize::try_from(arg["index"].as_u64().unwrap()).unwrap()];
                argument & arg["value"].as_u64().unwrap() == arg["valueTwo"].as_u64().unwrap()
            })
        })
    }

    #[test]
    fn the_profile_allows_what_the_rules_allow() {
        let profile: Value = serde_json::from_str(&crate::seccomp::docker_profile()).unwrap();
        let high = 0x5_0000_0000;
        for (name, arguments, expected) in [
            ("ioctl", [0, 0x5401, 0], true),
            ("ioctl", [0, 0x5411, 0], true),
            ("ioctl", [0, 0x5412, 0], false),
            ("ioctl", [0, 0x5412 | high, 0], false),
            ("ioctl", [0, 0x5413, 0], true),
            ("ioctl", [0, 0x541c, 0], false),
            ("ioctl", [0, 0xffff_ffff, 0], true),
            ("socket", [1, 5, 77], true),
            ("socket", [2, 1, 6], true),
            ("socket", [10, 0x80802, 17], true),
            ("socket", [2, 3, 1], false),
            ("socket", [2, 2, 1], false),
            ("socket", [2, 1, 262], false),
            ("socket", [16, 3, 0], true),
            ("socket", [16, 3, 16], false),
            ("socket", [17, 3, 0], false),
            ("socket", [40 | high, 1, 0], false),
            ("socketpair", [1, 1, 0], true),
            ("socketpair", [2, 1, 0], false),
            ("unshare", [0x400, 0, 0], true),
            ("unshare", [0x1000_0000, 0, 0], false),
            ("personality", [0xffff_ffff, 0, 0], true),
            ("personality", [0x40_0000, 0, 0], false),
        ] {
            let [first, second, third] = arguments;
            let allowed = allows(&profile, name, [first, second, third, 0, 0, 0]);
            assert_eq!(allowed, expected, "{name} {arguments:#x?}");
        }
    }

    #[test]
    fn everything_but_some_values_is_cut_into_pieces_that_do_not_overlap() {
        let (mask, values) = (0b1101, BTreeSet::from([0b0001, 0b1100]));
        for number in 0..16_u64 {
            let hit = without(mask, &values).iter().filter(|(mask, value)| number & mask == *value).count();
            assert_eq!(hit, usize::from(!values.contains(&(number & mask))), "{number:#b}");
        }
        assert_eq!(without(3, &BTreeSet::new()), [(0, 0)]);
        assert!(without(1, &BTreeSet::from([0, 1])).is_empty());
    }
}
