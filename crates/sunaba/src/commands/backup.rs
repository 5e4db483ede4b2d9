//! `sunaba backup`: takes the archive of everything from the server, and believes it only when it is whole.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use sunaba_backup::Backup;
use sunaba_types::{Clock as _, SystemClock};
use tokio::io::AsyncWriteExt as _;

use super::Context;
use crate::args::BackupArgs;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Between two pieces of the archive.
const PIECE_WITHIN: Duration = Duration::from_secs(120);

/// Makes a backup.
pub(crate) async fn backup(context: &Context, args: BackupArgs) -> Outcome {
    let out = args.out.unwrap_or_else(usual_name);
    if out.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; name another file with --out",
            out.display()
        )));
    }
    let client = context.client().await?;
    let draft = Draft(out.with_added_extension("part"));
    take(&client, args.files_only, &draft.0).await?;
    let path = draft.0.clone();
    let inspected = tokio::task::spawn_blocking(move || sunaba_backup::inspect(&path)).await;
    let found = inspected
        .map_err(|error| Failure::Other(error.into()))?
        .map_err(|error| Failure::Other(anyhow::Error::from(error).context("the backup is not kept")))?;
    std::fs::rename(&draft.0, &out)?;
    say(context, &out, &found);
    Ok(ExitCode::SUCCESS)
}

/// A file that goes unless it was renamed.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is nothing under this name.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn usual_name() -> PathBuf {
    let now = SystemClock.now().to_string();
    let time: String = now.chars().take(19).filter(|letter| !"-:".contains(*letter)).collect();
    PathBuf::from(format!("sunaba-backup-{time}Z.tar"))
}

async fn take(client: &Client, files_only: bool, to: &Path) -> Outcome<()> {
    let named = |error| Failure::other(format!("cannot write {}: {error}", to.display()));
    let path = if files_only { "/api/v1/system/backup?files_only=true" } else { "/api/v1/system/backup" };
    let mut answer = client.open_stream(path).await?;
    // What is in it is for the administrator alone.
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to);
    let mut file = tokio::fs::File::from_std(opened.map_err(named)?);
    let broken = |why: String| Failure::other(format!("the backup broke off: {why}"));
    loop {
        let piece = tokio::time::timeout(PIECE_WITHIN, answer.chunk()).await;
        let piece = piece.map_err(|_| broken("nothing came any more".to_owned()))?;
        let Some(piece) = piece.map_err(|error| broken(error.to_string()))? else { break };
        file.write_all(&piece).await.map_err(named)?;
    }
    file.flush().await.map_err(named)?;
    file.sync_all().await.map_err(named)
}

fn say(context: &Context, out: &Path, found: &Backup) {
    let (manifest, trailer) = (&found.manifest, &found.trailer);
    if context.json {
        let file = out.display().to_string();
        output::json(&json!({ "file": file, "manifest": manifest, "trailer": trailer }));
        return;
    }
    output::line(&format!(
        "{}: {} events of {} sandboxes, {} blobs, {} mirrors",
        out.display(),
        trailer.rows("events"),
        trailer.rows("sandboxes"),
        trailer.blobs,
        trailer.mirrors
    ));
    output::note("the secret key is not in it: keep secret.key (or SUNABA_SECRET_KEY) elsewhere");
}
