//! `sunaba restore`: a backup becomes a data directory and a database again, on either store.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sunaba_backup::{Backup, Contents};

use super::end::{End, other};
use super::migrate;
use crate::args::RestoreArgs;
use crate::client::LOCK_FILE;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::serve::lock::DataDirLock;
use crate::serve::make_private_dir;

/// Restores everything, checks it, and says what is still needed.
pub(crate) async fn restore(data_dir: &Path, args: &RestoreArgs, json: bool) -> Outcome {
    let file = args.file.clone();
    output::note(&format!("checking {}", file.display()));
    let inspected = tokio::task::spawn_blocking(move || sunaba_backup::inspect(&file)).await;
    let backup = inspected.map_err(other)?.map_err(other)?;
    let end = match (&args.database_url, backup.manifest.contents) {
        (_, Contents::FilesOnly) => None,
        (Some(url), Contents::Everything) => Some(End::read(url)?),
        (None, Contents::Everything) => Some(End::of_data_dir(data_dir)),
    };
    make_private_dir(data_dir)?;
    refuse_full(data_dir)?;
    let _lock = DataDirLock::take(data_dir)?;
    let mut target = match &end {
        Some(end) => Some(end.target().await?),
        None => None,
    };
    output::note(&format!("restoring into {}", data_dir.display()));
    let target = target.as_mut().map(|target| &mut **target as _);
    let verified = sunaba_backup::restore(&args.file, &backup, data_dir, target).await.map_err(other)?;
    if let Some(id) = &backup.manifest.node_id {
        // The mirrors and blobs are this node's, and rows say so.
        std::fs::write(data_dir.join("node-id"), format!("{id}\n"))?;
    }
    let trailer = &backup.trailer;
    if json {
        let rows = verified.as_ref().map(migrate::as_json);
        output::json(
            &json!({ "rows": rows, "blobs": trailer.blobs, "mirrors": trailer.mirrors, "ok": true }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(verified) = &verified {
        output::out(&migrate::words(verified));
    }
    output::line(&format!("files    {} blobs, {} mirrors", trailer.blobs, trailer.mirrors));
    output::out(&next(data_dir, end.as_ref(), &backup));
    Ok(ExitCode::SUCCESS)
}

/// Nothing is mixed with what was there.
fn refuse_full(dir: &Path) -> Outcome<()> {
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name != LOCK_FILE {
            return Err(Failure::usage(format!(
                "{} is not empty ({}); name an empty directory with --data",
                dir.display(),
                name.to_string_lossy()
            )));
        }
    }
    Ok(())
}

fn next(dir: &Path, end: Option<&End>, backup: &Backup) -> String {
    let key = dir.join("secret.key");
    let mut text = format!(
        "next     put the secret key back: it is in no backup, and secrets open with no other ({})\n",
        match end {
            Some(End::Postgres(_)) => "SUNABA_SECRET_KEY or SUNABA_SECRET_KEY_FILE".to_owned(),
            _ => format!("{}, mode 600, or SUNABA_SECRET_KEY", key.display()),
        }
    );
    if let Some(end @ End::Postgres(_)) = end {
        text.push_str(&format!("         start servers with DATABASE_URL={}\n", end.shown()));
    }
    if backup.manifest.contents == Contents::FilesOnly {
        text.push_str("         the rows come from the backup of another server of the same installation\n");
    }
    text
}
