//! What a repository asks for, within what its project allows.

use sunaba_types::{Egress, EgressPreset};

use super::pattern::Pattern;
use super::policy::{Policy, preset_patterns};

/// What both allow: a host passes the result exactly when it passes both. An entry that is no pattern
/// opens nothing and is left out.
pub fn shrink(project: &Egress, repository: &Egress) -> Egress {
    let (project, repository) = (Policy::readable(project), Policy::readable(repository));
    let preset = smaller(project.preset, repository.preset);
    let mut kept: Vec<Pattern> = preset_patterns(preset).collect();
    let in_preset = kept.len();
    let listed = project.allow.iter().flat_map(|entry| with_all(entry, &repository));
    let wanted = repository.allow.iter().flat_map(|entry| with_all(entry, &project));
    for pattern in listed.chain(wanted) {
        if !kept.iter().any(|other| other.covers(&pattern)) {
            kept.push(pattern);
        }
    }
    let allow = kept[in_preset..].iter().map(Pattern::to_string).collect();
    Egress { preset, allow }
}

/// What one entry and another policy both mean.
fn with_all(entry: &Pattern, policy: &Policy) -> Vec<Pattern> {
    let others = policy.allow.iter().cloned().chain(preset_patterns(policy.preset));
    others.filter_map(|other| entry.both(&other)).collect()
}

const fn smaller(one: EgressPreset, other: EgressPreset) -> EgressPreset {
    match (one, other) {
        (EgressPreset::None, _) | (_, EgressPreset::None) => EgressPreset::None,
        (EgressPreset::Registries, _) | (_, EgressPreset::Registries) => EgressPreset::Registries,
        (EgressPreset::Open, EgressPreset::Open) => EgressPreset::Open,
    }
}
