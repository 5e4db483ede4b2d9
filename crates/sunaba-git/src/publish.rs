//! Writes a finished branch into a person's repository.
//!
//! The objects go through a pipe, from git on the mirror to git on the
//! repository, because the repository's owner may not be able to read the
//! mirror. A branch that is checked out anywhere is refused, the work tree and
//! the index are never touched, and only a new branch or a fast-forward is written.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::command::{Git, LONG, collect_stderr};
use crate::{Error, Mirror, Repo, Result, validate_branch_name};

/// What became of a published branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It is new.
    Created,
    /// It moved on.
    Updated,
    /// It was there already.
    Unchanged,
}

/// Writes a branch of the mirror into the repository at `repo_path`.
pub async fn publish_branch(mirror: &Mirror, repo_path: &Path, branch: &str) -> Result<Published> {
    validate_branch_name(branch)?;
    let repo = Repo::discover(repo_path).await?;
    let new = mirror.branch_commit(branch).await?.ok_or_else(|| Error::UnknownRef(branch.to_owned()))?;
    let old = repo.find_commit(branch).await?;
    if old.as_deref() == Some(&new) {
        return Ok(Published::Unchanged);
    }
    if let Some((_, work_tree)) = repo.checked_out().await?.into_iter().find(|(name, _)| name == branch) {
        return Err(Error::CheckedOut { branch: branch.to_owned(), work_tree });
    }
    check_writable(&repo, branch, old.as_deref(), new.len()).await?;
    send_objects(mirror, &repo, &new).await?;
    if let Some(old) = &old {
        let follows = repo.git("merge-base").args(["--is-ancestor", old, &new]).holds().await?;
        if !follows {
            return Err(Error::NotFastForward(branch.to_owned()));
        }
    }
    // The old value is compared by git itself: a push in between is not overwritten.
    let zeros = "0".repeat(new.len());
    repo.git("update-ref")
        .args(["--no-deref", "-m", "sunaba: finished branch"])
        .args([&format!("refs/heads/{branch}"), &new, old.as_ref().unwrap_or(&zeros)])
        .bytes()
        .await?;
    Ok(if old.is_some() { Published::Updated } else { Published::Created })
}

/// Tries to lock the branch, and lets go of it: before anything is sent it is known whether it can be written.
async fn check_writable(repo: &Repo, branch: &str, old: Option<&str>, id_length: usize) -> Result<()> {
    let old = old.map_or_else(|| "0".repeat(id_length), str::to_owned);
    let orders = format!("start\nverify refs/heads/{branch} {old}\nprepare\nabort\n");
    let tried = repo.git("update-ref").args(["--no-deref", "--stdin"]).stdin(orders).bytes().await;
    match tried {
        Err(Error::Failed { operation, stderr }) => {
            let stderr = format!("the repository {} cannot be written: {stderr}", repo.path().display());
            Err(Error::Failed { operation, stderr })
        }
        other => other.map(drop),
    }
}

/// Brings the commit and what it needs into the repository, without any ref.
async fn send_objects(mirror: &Mirror, repo: &Repo, commit: &str) -> Result<()> {
    let mut wanted = format!("{commit}\n");
    for tip in common_tips(mirror, repo).await? {
        wanted.push_str(&format!("^{tip}\n"));
    }
    let pack = mirror.git("pack-objects").args(["--revs", "--thin", "--stdout", "--quiet"]).limit(LONG);
    let index = repo.git("index-pack").args(["--stdin", "--fix-thin"]).limit(LONG);
    let limit = index.time_limit();
    match tokio::time::timeout(limit, pipe(&pack, &index, wanted.into_bytes())).await {
        Ok(result) => result,
        Err(_) => Err(index.timed_out()),
    }
}

async fn pipe(from: &Git, to: &Git, wanted: Vec<u8>) -> Result<()> {
    let mut source = from.spawn(Stdio::piped(), Stdio::piped())?;
    let joined: Option<std::io::Result<Stdio>> = source.stdout.take().map(TryInto::try_into);
    let objects = joined.unwrap_or_else(|| Ok(Stdio::null())).map_err(Error::io("joining two gits"))?;
    let mut sink = to.spawn(objects, Stdio::null())?;
    let mut stdin = source.stdin.take();
    let feed = async {
        if let Some(pipe) = stdin.as_mut() {
            // A git that ended early says why by its exit status.
            let _ = pipe.write_all(&wanted).await;
        }
        drop(stdin.take());
    };
    let ((), said, answered) =
        tokio::join!(feed, collect_stderr(source.stderr.take()), collect_stderr(sink.stderr.take()));
    let sent = source.wait().await.map_err(Error::io("waiting for git"))?;
    let taken = sink.wait().await.map_err(Error::io("waiting for git"))?;
    match (sent.success(), taken.success()) {
        (true, true) => Ok(()),
        // A sender whose receiver is gone ends too, mostly without a word: the receiver knows the cause. A
        // receiver that got half a pack complains too, but then the sender has said why.
        (false, false) if said.trim().is_empty() => Err(to.failed(&answered)),
        (false, _) => Err(from.failed(&said)),
        (true, false) => Err(to.failed(&answered)),
    }
}

/// Branch tips of the repository that the mirror has too: nothing behind them needs to be sent.
async fn common_tips(mirror: &Mirror, repo: &Repo) -> Result<Vec<String>> {
    let listing = repo.git("for-each-ref").args(["--format=%(objectname)", "refs/heads"]).text().await?;
    let tips: BTreeSet<&str> = listing.lines().collect();
    let asked: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
    let known = mirror.git("cat-file").arg("--batch-check=%(objectname) %(objecttype)").stdin(asked);
    let known = known.text().await?;
    Ok(known.lines().filter_map(|line| line.strip_suffix(" commit")).map(str::to_owned).collect())
}
