//! How a mirror follows its source.

use std::collections::BTreeSet;
use std::path::Path;

use crate::command::{LONG, Owner};
use crate::mirror::{Mirror, Refs, list_refs};
use crate::names::clash;
use crate::{Error, Repo, Result, fetching, stale};

const SOURCE_BRANCHES: &str = "refs/remotes/source/";

impl Mirror {
    /// Takes over the source's branches and tags; owned branches stay as they are.
    pub async fn fetch(&self) -> Result<()> {
        let Some(source) = &self.source else {
            return Err(Error::Failed {
                operation: "fetch".to_owned(),
                stderr: "this mirror was opened without its source".to_owned(),
            });
        };
        stale::clear_locks(&self.dir)?;
        let [known, tags, shown, owned] =
            self.refs_below([SOURCE_BRANCHES, "refs/tags/", "refs/heads/", "refs/owned/"]).await?;
        let fetched = match local_path(source) {
            Some(path) => self.fetch_from_here(path, [&known, &tags]).await?,
            None => {
                let fetched = self.fetch_from(source, &upload_pack(None)).await;
                fetched.map_err(|error| fetching::explain(source, error))?;
                true
            }
        };
        let known = if fetched { self.refs(SOURCE_BRANCHES).await? } else { known };
        self.show_source_branches(&known, &shown, &owned).await
    }

    /// Fetches from a repository of this machine unless its refs are those that are known; answers whether it did.
    async fn fetch_from_here(&self, path: &Path, known: [&Refs; 2]) -> Result<bool> {
        let repo = Repo::discover(path).await?;
        let listing = list_refs(repo.git("for-each-ref"), ["refs/heads/", "refs/tags/"]).await?;
        if listing.each_ref() == known {
            return Ok(false);
        }
        self.fetch_from(&repo.git_dir().display().to_string(), &upload_pack(repo.owner())).await?;
        Ok(true)
    }

    async fn fetch_from(&self, from: &str, upload_pack: &str) -> Result<()> {
        let mut call = self
            .git("fetch")
            .args(["--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--update-shallow"])
            .args(["--prune", "--no-tags", "--upload-pack", upload_pack, "--", from])
            .args(["+refs/heads/*:refs/remotes/source/*", "+refs/tags/*:refs/tags/*"])
            .limit(LONG)
            .any_memory();
        if let Some(credential) = &self.credential {
            call = credential.lend(call, from);
        }
        call.bytes().await.map(drop)
    }

    /// Lets `refs/heads` follow the source, except for owned branches.
    async fn show_source_branches(&self, source: &Refs, shown: &Refs, owned: &Refs) -> Result<()> {
        let owned: BTreeSet<&String> = owned.keys().collect();
        let mut updates = Vec::new();
        for (name, commit) in source {
            let blocked = owned.iter().any(|own| clash(own, name));
            if !blocked && shown.get(name) != Some(commit) {
                updates.push(format!("update refs/heads/{name} {commit}\n"));
            }
        }
        for name in shown.keys().filter(|name| !source.contains_key(*name) && !owned.contains(*name)) {
            // Removed first: `a` may have become `a/b`.
            updates.insert(0, format!("delete refs/heads/{name}\n"));
        }
        let call = |updates: String| self.git("update-ref").arg("--stdin").stdin(updates).bytes();
        if updates.is_empty() || call(updates.concat()).await.is_ok() {
            return Ok(());
        }
        // One transaction cannot turn `a` into `a/b`; one step at a time can.
        for update in updates {
            call(update).await?;
        }
        Ok(())
    }
}

/// What the fetching git runs on a local source. It runs as the source's owner: as root it would hand out
/// whatever the source's settings and borrowed objects point to.
fn upload_pack(owner: Option<Owner>) -> String {
    let prefix = owner.map(Owner::shell_prefix).unwrap_or_default();
    format!("{prefix}git -c 'safe.directory=*' upload-pack")
}

/// The path, when a source is one: absolute, or `file://`.
pub(crate) fn local_path(source: &str) -> Option<&Path> {
    let path = source.strip_prefix("file://").unwrap_or(source);
    path.starts_with('/').then(|| Path::new(path))
}
