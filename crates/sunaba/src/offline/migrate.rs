//! `sunaba migrate`: moves everything from one store into another one that is empty.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sunaba_store::transfer::{self, Step, Verified};

use super::end::End;
use crate::args::MigrateArgs;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Moves everything, checks it, and says what to set from now on.
pub(crate) async fn migrate(data_dir: &Path, args: &MigrateArgs, json: bool) -> Outcome {
    let from = args.from.as_deref().map_or_else(|| Ok(End::of_data_dir(data_dir)), End::read)?;
    let to = End::read(&args.to)?;
    if from.shown() == to.shown() {
        return Err(Failure::usage("--from and --to are the same"));
    }
    let _from = from.lock()?;
    let _to = if to.dir() == from.dir() { None } else { to.lock()? };
    let store = from.open().await?;
    output::note(&format!("moving {} to {}", from.shown(), to.shown()));
    let moved = carry(&*store, &to).await;
    store.close().await;
    let verified = moved?;
    if json {
        output::json(&as_json(&verified));
        return Ok(ExitCode::SUCCESS);
    }
    output::out(&words(&verified));
    output::out(&next(&from, &to));
    Ok(ExitCode::SUCCESS)
}

async fn carry(store: &dyn sunaba_store::Store, to: &End) -> Outcome<Verified> {
    let failed = |error: sunaba_store::Error| match error {
        sunaba_store::Error::Conflict { detail, .. } => Failure::other(detail),
        passing => Failure::Other(
            anyhow::Error::from(passing).context("the move broke off; the same command goes on where it was"),
        ),
    };
    let mut source = store.read_whole().await.map_err(failed)?;
    let mut target = to.target().await?;
    let mut told = Told::default();
    transfer::copy(&mut *source, &mut *target, &mut |step| told.step(step)).await.map_err(failed)?;
    output::note("checking every row and every chain");
    transfer::check_and_finish(&mut *source, &mut *target).await.map_err(failed)
}

/// Says how far it is: once a table, and again in large ones.
#[derive(Debug, Default)]
struct Told {
    rows: i64,
}

impl Told {
    /// After so many rows it is said again.
    const EVERY: i64 = 50_000;

    fn step(&mut self, step: Step) {
        let is_end = step.rows >= step.of;
        if is_end || step.rows - self.rows >= Self::EVERY {
            output::note(&format!("{} {} of {}", step.table.name, step.rows, step.of));
            self.rows = if is_end { 0 } else { step.rows };
        }
    }
}

pub(super) fn words(verified: &Verified) -> String {
    let counts: Vec<String> =
        verified.tables.iter().map(|sum| format!("{} {}", sum.table.name, sum.rows)).collect();
    format!(
        "rows     {}\nchecked  {} events in {} sandboxes, every chain holds\n",
        counts.join(", "),
        verified.events,
        verified.sandboxes
    )
}

pub(super) fn as_json(verified: &Verified) -> serde_json::Value {
    let tables: serde_json::Map<_, _> =
        verified.tables.iter().map(|sum| (sum.table.name.to_owned(), sum.rows.into())).collect();
    json!({ "tables": tables, "events": verified.events, "sandboxes": verified.sandboxes, "ok": true })
}

/// What has to be set from now on.
fn next(from: &End, to: &End) -> String {
    let mut text = format!("next     start servers with DATABASE_URL={}\n", to.shown());
    if let (Some(dir), End::Postgres(_)) = (from.dir(), to) {
        let key = dir.join("secret.key");
        text.push_str(&if key.is_file() {
            format!(
                "         and SUNABA_SECRET_KEY_FILE={0}: the key stays the same (or SUNABA_SECRET_KEY, set to the \
                 content of that file); other servers need it too\n",
                key.display()
            )
        } else {
            "         and the same SUNABA_SECRET_KEY as before\n".to_owned()
        });
        text.push_str(&format!("         mirrors, blobs and sandboxes stay in {}\n", dir.display()));
    }
    text
}
