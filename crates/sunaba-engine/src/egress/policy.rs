//! A project's policy, ready to be asked.

use sunaba_types::{Egress, EgressPreset};

use super::host::Host;
use super::pattern::{BadPattern, Pattern};
use super::registries::registries;

/// Most entries of a list that somebody sets.
pub const ALLOW_MAX: usize = 200;

/// What was decided, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the host may be reached, as far as its name goes.
    pub allowed: bool,
    /// What decided: `allow[2]: *.example.org`, `preset none`, …
    pub rule: String,
}

/// A policy that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEgress {
    /// An entry is no pattern.
    #[error("allow[{index}]: {entry:?}: {why}")]
    Entry {
        /// Which, from 0.
        index: usize,
        /// The entry, shortened.
        entry: String,
        /// What is wrong with it.
        why: BadPattern,
    },
    /// There are too many.
    #[error("allow has {0} entries; at most {ALLOW_MAX} are possible")]
    TooMany(usize),
}

/// Checks a policy that somebody sets.
pub fn check(egress: &Egress) -> Result<(), InvalidEgress> {
    if egress.allow.len() > ALLOW_MAX {
        return Err(InvalidEgress::TooMany(egress.allow.len()));
    }
    Policy::new(egress).map(|_| ())
}

/// Decides for one host at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(super) preset: EgressPreset,
    pub(super) allow: Vec<Pattern>,
}

impl Policy {
    /// Reads a policy.
    pub fn new(egress: &Egress) -> Result<Self, InvalidEgress> {
        let mut allow = Vec::with_capacity(egress.allow.len());
        for (index, entry) in egress.allow.iter().enumerate() {
            allow.push(Pattern::parse(entry).map_err(|why| InvalidEgress::Entry {
                index,
                entry: entry.chars().take(100).collect(),
                why,
            })?);
        }
        Ok(Self { preset: egress.preset, allow })
    }

    /// What can be read of a policy.
    pub(super) fn readable(egress: &Egress) -> Self {
        let allow = egress.allow.iter().filter_map(|entry| Pattern::parse(entry).ok()).collect();
        Self { preset: egress.preset, allow }
    }

    /// Whether a host may be reached at a port. The list is asked first: what a person wrote explains
    /// more than a preset.
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        let mut nearly = None;
        for (rule, pattern) in self.rules() {
            if pattern.names(host) {
                if pattern.opens(port) {
                    return Decision { allowed: true, rule: rule.words(&pattern) };
                }
                nearly.get_or_insert_with(|| format!("port {port} is not open: {}", rule.words(&pattern)));
            }
        }
        Decision { allowed: false, rule: nearly.unwrap_or_else(|| self.nothing()) }
    }

    /// Every pattern that opens something, in the order in which they are asked.
    fn rules(&self) -> impl Iterator<Item = (Rule, Pattern)> {
        let listed =
            self.allow.iter().enumerate().map(|(index, pattern)| (Rule::Allow(index), pattern.clone()));
        listed.chain(preset_patterns(self.preset).map(|pattern| (Rule::Preset(self.preset), pattern)))
    }

    /// The rule of a host that nothing names.
    fn nothing(&self) -> String {
        match self.allow.len() {
            0 => format!("preset {}", self.preset),
            1 => format!("preset {}, and not in the one entry of allow", self.preset),
            entries => format!("preset {}, and not in the {entries} entries of allow", self.preset),
        }
    }
}

/// Where a pattern stands.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Allow(usize),
    Preset(EgressPreset),
}

impl Rule {
    fn words(self, pattern: &Pattern) -> String {
        match self {
            Self::Allow(index) => format!("allow[{index}]: {pattern}"),
            Self::Preset(EgressPreset::Open) => "preset open".to_owned(),
            Self::Preset(preset) => format!("preset {preset}: {pattern}"),
        }
    }
}

/// What a preset opens.
pub(super) fn preset_patterns(preset: EgressPreset) -> impl Iterator<Item = Pattern> {
    let (everything, listed) = match preset {
        EgressPreset::None => (None, &[][..]),
        EgressPreset::Registries => (None, registries()),
        EgressPreset::Open => (Some(Pattern::EVERYTHING), &[][..]),
    };
    everything.into_iter().chain(listed.iter().map(|registry| registry.pattern.clone()))
}
