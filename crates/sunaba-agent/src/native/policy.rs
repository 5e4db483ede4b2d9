//! Which tools a run has.

/// Every tool that there is.
const TOOLS: [&str; 9] = ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite", "Task", "Skill"];

const TASK: &str = "Task";
const AGENT: &str = "Agent";
const SKILL: &str = "Skill";

/// Which tools the model is offered; what is not offered cannot be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Only these; all of them when empty. A tool with a condition in parentheses is not among those offered, because
    /// the condition could not be kept.
    pub allowed: Vec<String>,
    /// None of these, whatever else is said. Of one with a condition, nothing is left.
    pub disallowed: Vec<String>,
    /// Whether there is `Skill`; when nothing is said, whether it is among the allowed ones.
    pub skills: Option<bool>,
    /// Whether there is `Task`; when nothing is said, whether it is among the allowed ones.
    pub subagents: Option<bool>,
}

impl ToolPolicy {
    /// The tools of a run.
    pub(super) fn tools(&self) -> Vec<&'static str> {
        TOOLS.into_iter().filter(|tool| self.offers(tool)).collect()
    }

    /// Whether a run may use a tool that is not one of ours.
    pub(crate) fn permits(&self, tool: &str) -> bool {
        self.offers(if tool == AGENT { TASK } else { tool })
    }

    /// The only tools that a program of its own is to have, if not all.
    pub(crate) fn only(&self) -> Option<Vec<String>> {
        if self.allowed.is_empty() {
            return None;
        }
        let said = [(SKILL, self.skills), (TASK, self.subagents)];
        let said = said.into_iter().filter(|(_, said)| *said == Some(true)).map(|(tool, _)| tool);
        let named = self.allowed.iter().map(|entry| entry.trim()).filter(|entry| !entry.contains('('));
        Some(also_as_agent(named.chain(said).filter(|tool| self.permits(tool))))
    }

    /// The tools that a program of its own is not to have.
    pub(crate) fn withheld(&self) -> Vec<String> {
        let said = [(SKILL, self.skills), (TASK, self.subagents)];
        let said = said.into_iter().filter(|(_, said)| *said == Some(false)).map(|(tool, _)| tool);
        also_as_agent(self.disallowed.iter().map(|entry| name(entry)).chain(said))
    }

    fn offers(&self, tool: &str) -> bool {
        let is_it = |entry: &str| entry == tool || (entry == AGENT && tool == TASK);
        if self.disallowed.iter().any(|entry| is_it(name(entry))) {
            return false;
        }
        let said = match tool {
            SKILL => self.skills,
            TASK => self.subagents,
            _ => None,
        };
        said.unwrap_or_else(|| {
            self.allowed.is_empty() || self.allowed.iter().any(|entry| is_it(entry.trim()))
        })
    }
}

/// The tool of an entry that may have a condition.
fn name(entry: &str) -> &str {
    entry.split('(').next().unwrap_or_default().trim()
}

/// `Task` is called `Agent` by newer versions of Claude Code.
fn also_as_agent<'a>(tools: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut tools: Vec<_> = tools.map(str::to_owned).collect();
    for (one, other) in [(TASK, AGENT), (AGENT, TASK)] {
        if tools.iter().any(|tool| tool == one) && !tools.iter().any(|tool| tool == other) {
            tools.push(other.to_owned());
        }
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allowed: &[&str], disallowed: &[&str]) -> ToolPolicy {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ToolPolicy { allowed: owned(allowed), disallowed: owned(disallowed), skills: None, subagents: None }
    }

    #[test]
    fn what_is_offered_is_allowed_and_not_disallowed() {
        assert_eq!(ToolPolicy::default().tools(), TOOLS);
        assert_eq!(policy(&["Read", "Bash", "Other"], &[]).tools(), ["Read", "Bash"]);
        assert_eq!(policy(&["Read", "Bash"], &["Bash"]).tools(), ["Read"]);
        assert_eq!(policy(&["Read", "Bash(git:*)"], &[]).tools(), ["Read"]);
        assert!(!policy(&[], &["Bash(rm:*)"]).tools().contains(&"Bash"));
    }

    #[test]
    fn a_program_of_its_own_is_told_the_same() {
        assert_eq!((ToolPolicy::default().only(), ToolPolicy::default().withheld()), (None, vec![]));
        let some = ToolPolicy { skills: Some(true), ..policy(&["Read", "Agent", "Bash(git:*)"], &[]) };
        assert_eq!(some.only().unwrap(), ["Read", "Agent", "Skill", "Task"]);
        assert!(some.permits("Agent") && some.permits("Task") && !some.permits("Bash"));
        let less = ToolPolicy { skills: Some(false), ..policy(&[], &["Bash(rm:*)", "Task"]) };
        assert_eq!(less.withheld(), ["Bash", "Task", "Skill", "Agent"]);
        assert!(!less.permits("Agent") && !less.permits("Skill") && less.permits("mcp__x__y"));
    }

    #[test]
    fn skills_and_helpers_have_a_word_of_their_own() {
        let with = |skills, subagents| ToolPolicy { skills, subagents, ..policy(&["Read"], &[]) };
        assert_eq!(with(Some(true), Some(false)).tools(), ["Read", "Skill"]);
        assert_eq!(with(None, Some(true)).tools(), ["Read", "Task"]);
        let none = ToolPolicy { skills: Some(false), subagents: Some(false), ..ToolPolicy::default() };
        assert_eq!(none.tools(), TOOLS[..7]);
        let no_task = ToolPolicy { subagents: Some(true), ..policy(&[], &["Task"]) };
        assert!(!no_task.tools().contains(&"Task"));
    }
}
