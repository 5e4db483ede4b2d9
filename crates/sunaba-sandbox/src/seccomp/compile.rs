//! Turns the rules into a program for the kernel.
//!
//! `seccompiler` makes programs with two outcomes. There are more here, so one is made
//! for each error and they are laid end to end: where one would allow, the next decides.

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::Error;
use super::rules::{Condition, ENOSYS, Part, Rule, Rules, Test, Verdict};

/// `BPF_RET | BPF_K`
const RETURN: u16 = 0x06;
/// `BPF_JMP | BPF_JA`
const JUMP: u16 = 0x05;
const RETURN_ALLOW: u32 = 0x7fff_0000;
/// Longest program that the kernel takes.
const PROGRAM_MAX: usize = 4096;

/// One program for one architecture.
pub(super) fn program(rules: &Rules, architecture: TargetArch) -> Result<BpfProgram, Error> {
    let mut parts = Vec::new();
    for errno in errors(rules) {
        parts.push(refusing(rules, architecture, errno)?);
    }
    parts.push(allowing(rules, architecture)?);
    let whole = end_to_end(parts);
    if whole.len() > PROGRAM_MAX {
        return Err(Error::Whole(format!("{} instructions are more than the kernel takes", whole.len())));
    }
    Ok(whole)
}

/// Errors that some rule gives, but for the one that everything unknown gets.
fn errors(rules: &Rules) -> BTreeSet<u16> {
    let plain = rules.0.values().filter_map(|rule| match rule.verdict {
        Verdict::Refuse(errno) if errno != ENOSYS => Some(errno),
        _ => None,
    });
    plain.chain(rules.0.values().flat_map(|rule| &rule.unless).map(|condition| condition.errno)).collect()
}

/// Refuses what gets this error and leaves the rest to the next.
fn refusing(rules: &Rules, architecture: TargetArch, errno: u16) -> Result<BpfProgram, Error> {
    let mut calls = BTreeMap::new();
    for rule in rules.0.values() {
        let Some(number) = number(rule, architecture) else { continue };
        if rule.verdict == Verdict::Refuse(errno) {
            calls.insert(number, Vec::new());
        }
        let conditions = rule.unless.iter().filter(|condition| condition.errno == errno);
        let uses = conditions.map(alternatives).collect::<Result<Vec<_>, _>>()?.concat();
        // No use at all would mean every use.
        if !uses.is_empty() {
            calls.insert(number, uses);
        }
    }
    build(calls, SeccompAction::Allow, SeccompAction::Errno(u32::from(errno)), architecture)
}

/// Allows what is known and gives ENOSYS for the rest. What an earlier part refuses never comes here.
fn allowing(rules: &Rules, architecture: TargetArch) -> Result<BpfProgram, Error> {
    let allowed = rules.0.values().filter(|rule| rule.verdict == Verdict::Allow);
    let calls = allowed.filter_map(|rule| Some((number(rule, architecture)?, Vec::new()))).collect();
    build(calls, SeccompAction::Errno(u32::from(ENOSYS)), SeccompAction::Allow, architecture)
}

fn number(rule: &Rule, architecture: TargetArch) -> Option<i64> {
    match architecture {
        TargetArch::x86_64 => rule.numbers.x86_64,
        TargetArch::aarch64 => rule.numbers.aarch64,
        TargetArch::riscv64 => None,
    }
}

/// The uses that a condition names; a use is one of them when all parts of one alternative are so.
fn alternatives(condition: &Condition) -> Result<Vec<SeccompRule>, Error> {
    let mut uses: Vec<Vec<SeccompCondition>> = vec![Vec::new()];
    for part in &condition.parts {
        let ways = ways(part)?;
        uses = uses
            .iter()
            .flat_map(|so_far| ways.iter().map(|way| [so_far.as_slice(), way.as_slice()].concat()))
            .collect();
    }
    uses.into_iter().map(|parts| SeccompRule::new(parts).map_err(broken)).collect()
}

/// The ways in which a part is so, each a list of what must all hold.
fn ways(part: &Part) -> Result<Vec<Vec<SeccompCondition>>, Error> {
    let one = |width, operation, value| {
        SeccompCondition::new(part.argument, width, operation, value).map_err(broken)
    };
    let low = SeccompCmpArgLen::Dword;
    let each = |values: &[u64], operation: fn(u64) -> SeccompCmpOp, width: SeccompCmpArgLen| {
        values.iter().map(|value| Ok(vec![one(width.clone(), operation(*value), *value)?])).collect()
    };
    match (part.test, part.mask) {
        (Test::Has, _) => each(&part.values, SeccompCmpOp::MaskedEq, SeccompCmpArgLen::Qword),
        (Test::In, None) => each(&part.values, |_| SeccompCmpOp::Eq, low),
        (Test::NotIn, None) => {
            let all = part.values.iter().map(|value| one(low.clone(), SeccompCmpOp::Ne, *value));
            Ok(vec![all.collect::<Result<_, _>>()?])
        }
        // There is no comparison for "these bits are not so": what else they can be is gone through.
        (Test::In | Test::NotIn, Some(mask)) => part
            .refused_under(mask)
            .into_iter()
            .map(|value| Ok(vec![one(low.clone(), SeccompCmpOp::MaskedEq(mask), value)?]))
            .collect(),
    }
}

fn build(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matching: SeccompAction,
    architecture: TargetArch,
) -> Result<BpfProgram, Error> {
    let filter = SeccompFilter::new(calls, otherwise, matching, architecture).map_err(broken)?;
    filter.try_into().map_err(broken)
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn broken(error: seccompiler::BackendError) -> Error {
    Error::Whole(error.to_string())
}

/// Lays programs end to end: allowing becomes a jump behind the program's end. The last one keeps its answers.
fn end_to_end(parts: Vec<BpfProgram>) -> BpfProgram {
    let last = parts.len().saturating_sub(1);
    let mut whole = Vec::new();
    for (index, part) in parts.into_iter().enumerate() {
        let length = part.len();
        whole.extend(part.into_iter().enumerate().map(|(at, one)| {
            let allows = one.code == RETURN && one.k == RETURN_ALLOW;
            match u32::try_from(length - at - 1) {
                Ok(rest) if allows && index != last => sock_filter { code: JUMP, k: rest, ..one },
                _ => one,
            }
        }));
    }
    whole
}

#[cfg(test)]
mod tests;
