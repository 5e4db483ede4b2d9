//! What is really there when the agent says that it is done.

use std::time::Duration;

use super::check::Check;
use super::settings::Continuous;
use crate::work::repository::{Captured, Repository};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// None when git could not say.
    pub(super) clean: Option<bool>,
    pub(super) captured: Captured,
    pub(super) pushed: bool,
    pub(super) check: Check,
}

impl Evidence {
    /// Looks for it. The check runs last, because it may leave something behind.
    pub(super) async fn look(
        settings: &Continuous,
        repository: &Repository,
        local: Duration,
        check_patience: Duration,
    ) -> Self {
        let clean = repository.is_clean(local).await.ok();
        let captured = repository.look(local).await.unwrap_or_default();
        // Where nothing was committed there is nothing that could have been pushed.
        let pushed = captured.committed && repository.is_at_remote(&captured.head, local).await;
        let check = match &settings.check_command {
            Some(command) if settings.require_tests => {
                Check::run(command, repository.dir(), check_patience).await
            }
            _ => Check::NotRun,
        };
        Self { clean, captured, pushed, check }
    }

    /// Whether the check passed; none when it did not run.
    pub(super) fn tests_passed(&self) -> Option<bool> {
        match &self.check {
            Check::NotRun => None,
            Check::Passed => Some(true),
            Check::Failed { .. } => Some(false),
        }
    }

    /// What is missing, in words for the agent.
    pub(super) fn missing(&self, settings: &Continuous, branch: &str) -> Vec<String> {
        let mut missing = Vec::new();
        match self.clean {
            _ if !settings.require_clean_git => {}
            Some(true) => {}
            Some(false) => {
                missing.push("there are changes that are not committed (see `git status`)".to_owned());
            }
            None => missing.push("git cannot say what is changed in the workspace".to_owned()),
        }
        if settings.require_code_pushed && !self.captured.committed {
            missing.push("nothing was committed".to_owned());
        } else if settings.require_code_pushed && !self.pushed {
            missing.push(format!("HEAD is not at the remote: run `git push origin HEAD:{branch}`"));
        }
        match &self.check {
            Check::NotRun if settings.require_tests => missing.push("the check did not run".to_owned()),
            Check::NotRun | Check::Passed => {}
            Check::Failed { how, output } => {
                let command = settings.check_command.as_deref().unwrap_or_default();
                missing
                    .push(format!("the check `{command}` {how}; the end of its output:\n{}", output.trim()));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::continuous::settings::tests::settings;

    fn all_there() -> Evidence {
        let captured = Captured { head: "1".to_owned(), committed: true, ..Captured::default() };
        Evidence { clean: Some(true), captured, pushed: true, check: Check::Passed }
    }

    #[test]
    fn what_was_not_seen_is_missing() {
        let wanted = settings(&[("CHECK_COMMAND", "make test")]).unwrap();
        let missing = |evidence: Evidence| evidence.missing(&wanted, "b").join("\n");
        assert_eq!(missing(all_there()), "");
        assert!(missing(Evidence { clean: Some(false), ..all_there() }).contains("git status"));
        assert!(!missing(Evidence { clean: None, ..all_there() }).is_empty());
        assert!(missing(Evidence { pushed: false, ..all_there() }).contains("git push origin HEAD:b"));
        assert!(missing(Evidence { check: Check::NotRun, ..all_there() }).contains("did not run"));
        let failed = Check::Failed { how: "ended with 1".to_owned(), output: "oh no".to_owned() };
        let said = missing(Evidence { check: failed, ..all_there() });
        assert!(
            said.contains("make test") && said.contains("ended with 1") && said.contains("oh no"),
            "{said}"
        );
        let nothing = Evidence { captured: Captured::default(), pushed: false, ..all_there() };
        assert!(missing(nothing).contains("nothing was committed"));
    }

    #[test]
    fn what_is_not_required_is_not_missing() {
        let no = [("REQUIRE_CLEAN_GIT", "0"), ("REQUIRE_CODE_PUSHED", "0"), ("REQUIRE_TESTS", "0")];
        let nothing =
            Evidence { clean: None, captured: Captured::default(), pushed: false, check: Check::NotRun };
        assert_eq!(nothing.missing(&settings(&no).unwrap(), "b"), Vec::<String>::new());
    }
}
