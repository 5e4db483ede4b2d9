//! Sends what is in the spool, in order, until the server has it.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Reporter;
use super::spool::Batch;
use crate::work::http::{Answer, Client};

const BATCH_MAX_EVENTS: usize = sunaba_types::limits::BATCH_MAX_EVENTS;
/// Well below the server's bound, so that a batch does not hold up the messages beside it.
const BATCH_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Longer than the bridge holds a request while the server is away.
const PATIENCE: Duration = Duration::from_secs(65 * 60);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Refusals in a row of a token after which it is believed.
const REFUSALS_MAX: u32 = 5;

/// The sending task.
#[derive(Debug)]
pub(in crate::work) struct Sender {
    pub(in crate::work) reporter: Reporter,
    pub(in crate::work) client: Client,
    pub(in crate::work) path: String,
    /// Cancelled when the server says that this sandbox has nothing more to say.
    pub(in crate::work) over: CancellationToken,
}

/// What the server did with a batch.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    TooMuchAtOnce,
    Later,
    Refused,
    Stop,
}

impl Sender {
    /// Sends until the task is dropped or the server says stop.
    pub(in crate::work) async fn run(mut self) {
        let mut progress = self.reporter.watch();
        let mut pause = PAUSE_FIRST;
        let mut most = BATCH_MAX_EVENTS;
        let mut refusals = 0;
        loop {
            progress.mark_unchanged();
            let peeked = self.reporter.spool().peek(most, BATCH_MAX_BYTES);
            let batch = match peeked {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::error!(%error, "cannot read the spool");
                    sleep(PAUSE_MAX).await;
                    continue;
                }
            };
            if batch.lines.is_empty() {
                if progress.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let verdict = self.post(&batch).await;
            refusals = if verdict == Verdict::Refused { refusals + 1 } else { 0 };
            match verdict {
                Verdict::Taken => {
                    self.settle(&batch);
                    (pause, most) = (PAUSE_FIRST, BATCH_MAX_EVENTS);
                    continue;
                }
                Verdict::TooMuchAtOnce if batch.lines.len() > 1 => {
                    most = batch.lines.len() / 2;
                    continue;
                }
                Verdict::TooMuchAtOnce => {
                    tracing::error!("the server refuses an event for good; leaving it out");
                    self.settle(&batch);
                    continue;
                }
                Verdict::Stop => return self.over.cancel(),
                Verdict::Refused if refusals >= REFUSALS_MAX => return self.over.cancel(),
                Verdict::Later | Verdict::Refused => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn post(&mut self, batch: &Batch) -> Verdict {
        let mut body = Vec::with_capacity(batch.lines.iter().map(|line| line.len() + 1).sum::<usize>() + 16);
        body.extend_from_slice(b"{\"events\":[");
        body.extend_from_slice(&batch.lines.join(&b','));
        body.extend_from_slice(b"]}");
        match self.client.post(&self.path, Bytes::from(body), PATIENCE).await {
            Ok(answer) => judge(&answer),
            Err(error) => {
                tracing::warn!(%error, "events not sent; trying again");
                Verdict::Later
            }
        }
    }

    fn settle(&self, batch: &Batch) {
        if let Err(error) = self.reporter.spool().acknowledge(batch) {
            tracing::error!(%error, "cannot note that events are acknowledged");
        }
        self.reporter.acknowledged(batch.lines.len() as u64);
    }
}

fn judge(answer: &Answer) -> Verdict {
    match answer.status.as_u16() {
        200..=299 => {
            report_rejections(answer);
            Verdict::Taken
        }
        _ if answer.says_stop() => Verdict::Stop,
        401 | 403 => Verdict::Refused,
        400 | 413 | 422 => Verdict::TooMuchAtOnce,
        status => {
            tracing::warn!(status, "events not taken; trying again");
            Verdict::Later
        }
    }
}

/// A rejected event is dealt with: sending it again would change nothing.
fn report_rejections(answer: &Answer) {
    #[derive(Deserialize)]
    struct Results {
        results: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        status: String,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        detail: Option<String>,
    }
    let Ok(Results { results }) = serde_json::from_slice(&answer.body) else { return };
    for One { code, detail, .. } in results.into_iter().filter(|one| one.status != "received") {
        tracing::warn!(?code, ?detail, "the server rejected an event");
    }
}
