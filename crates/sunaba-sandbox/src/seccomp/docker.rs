//! The rules as Docker reads them.
//!
//! Docker's rules name uses that are allowed, ours uses that are refused. A refused use of
//! an allowed call gets ENOSYS there, as everything does that is not named, instead of its
//! own error. Daemons before version 23 know no default error and say EPERM; where that would
//! matter (`clone3`, which C libraries give up only for ENOSYS) the rule names its error itself. Uses that cannot be said in that form (typing into a terminal) are allowed: a
//! container gets no terminal.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rules::{Condition, ENOSYS, Rules, Test, Verdict};

pub(super) fn profile(rules: &Rules) -> String {
    let mut plain: BTreeMap<Verdict, Vec<&str>> = BTreeMap::new();
    let mut calls = Vec::new();
    for (name, rule) in &rules.0 {
        match (&rule.unless, rule.verdict) {
            (Some(condition), _) if condition.test != Test::In => {
                calls.extend(
                    allowed_uses(condition)
                        .into_iter()
                        .map(|use_| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": [use_]})),
                );
            }
            (_, verdict) => plain.entry(verdict).or_default().push(name),
        }
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

fn allowed_uses(condition: &Condition) -> Vec<Value> {
    let index = condition.argument;
    match condition.test {
        Test::Has => {
            let bits = condition.values.iter().fold(0, |all, bit| all | bit);
            vec![json!({"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})]
        }
        Test::NotIn => condition
            .values
            .iter()
            .map(|value| json!({"index": index, "value": value, "op": "SCMP_CMP_EQ"}))
            .collect(),
        Test::In => Vec::new(),
    }
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
        let families: Vec<_> =
            rules_for(&profile, "socket").iter().map(|rule| rule["args"][0]["value"].clone()).collect();
        assert_eq!(families, [1, 2, 10, 16]);
        assert_eq!(rules_for(&profile, "ioctl").len(), 1);
    }
}
