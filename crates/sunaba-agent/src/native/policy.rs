//! Which tools a run has.

/// Every tool that there is.
const TOOLS: [&str; 9] = ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite", "Task", "Skill"];

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

    fn offers(&self, tool: &str) -> bool {
        let name = |entry: &str| entry.split('(').next().unwrap_or_default().trim().to_owned();
        if self.disallowed.iter().any(|entry| name(entry) == tool) {
            return false;
        }
        let said = match tool {
            "Skill" => self.skills,
            "Task" => self.subagents,
            _ => None,
        };
        said.unwrap_or_else(|| {
            self.allowed.is_empty() || self.allowed.iter().any(|entry| entry.trim() == tool)
        })
    }
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
