//! Pushing where it is not one's own, and fetching what is another project's. Without the guard the same
//! push goes to a bare repository.

use crate::attempt::{Attempt, Without, sh};

const REFS: &str = "a push may write the sandbox's own branch and refs/sunaba/<own id> only";
const PROJECT: &str = "a sandbox has its own project's repository only";

/// A commit to push, on top of what the repository has.
macro_rules! pushing {
    ($what:literal) => {
        concat!(
            "git clone -q \"$GIT_URL\" copy && cd copy && git config user.name x && git config user.email x@x.invalid\n",
            "git commit -q --allow-empty -m forged\n",
            "git push origin ",
            $what,
            " 2>&1 | tee ../said; [ \"${PIPESTATUS[0]}\" = 0 ] && through"
        )
    };
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("push-to-main", REFS, Without::User, pushing!("HEAD:refs/heads/main")),
    sh("push-to-its-branch", REFS, Without::User, pushing!("\"+HEAD:refs/heads/$VICTIM_BRANCH\"")),
    sh("push-to-its-steps", REFS, Without::User, pushing!("\"+HEAD:refs/sunaba/$VICTIM_ID\"")),
    sh("push-a-tag", REFS, Without::User, pushing!("HEAD:refs/tags/v1")),
    sh("push-a-replacement", REFS, Without::User, pushing!("\"HEAD:refs/replace/$(git rev-parse HEAD~1)\"")),
    sh("push-both", REFS, Without::User, pushing!("\"+HEAD:refs/heads/$OWN_BRANCH\" HEAD:refs/heads/more")),
    sh("push-below-the-own-branch", REFS, Without::User, pushing!("\"HEAD:refs/heads/$OWN_BRANCH.more\"")),
    sh(
        "delete-main",
        REFS,
        Without::User,
        r#"git init -q . && git push "${DOOMED_URL:-$GIT_URL}" :refs/heads/main && through"#,
    ),
    sh(
        "push-to-another-project",
        PROJECT,
        Without::User,
        r#"GIT_URL=$OTHER_GIT_URL
git init -q . && git -c user.name=x -c user.email=x@x.invalid commit -q --allow-empty -m x && git push "$GIT_URL" HEAD:refs/heads/x && through"#,
    ),
    sh("fetch-another-project", PROJECT, Without::User, r#"git ls-remote "$OTHER_GIT_URL" && through"#),
    sh(
        "fetch-by-a-crooked-path",
        PROJECT,
        Without::User,
        r#"for url in ${CROOKED_URLS:-"$GIT_URL/../$OTHER_PROJECT" "$GIT_URL%2f..%2f$OTHER_PROJECT.git" "$GIT_URL/.git/../../$OTHER_PROJECT.git"}; do
    git ls-remote "$url" && through
done"#,
    ),
];
