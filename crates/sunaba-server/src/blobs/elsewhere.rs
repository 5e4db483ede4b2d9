//! Blobs that another node took: brought here once, kept afterwards.
//!
//! What comes is written to the disk as it comes, under the bounds and the name of any blob that is not yet one, and
//! gets its own name only if it has the hash that was asked for. However many ask for a blob at a time, it is
//! fetched once; the others wait for that and share what came of it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use sunaba_nodes::{Error, Nodes};
use sunaba_types::limits::BLOB_MAX_BYTES;
use sunaba_types::{BlobHash, NodeId};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::{BlobError, BlobFiles};
use crate::room::Disk;

/// How long it may take until more of a blob comes.
const PAUSE: Duration = Duration::from_secs(30);

/// The other nodes, which may have what is not here.
#[derive(Debug, Clone)]
pub(super) struct Elsewhere {
    nodes: Nodes,
    disk: Disk,
    flights: Arc<Flights>,
}

/// What came of a fetch: whether the blob is here now.
type Landing = Result<bool, Failure>;

/// Why a blob could not be brought. Shared by all who waited for it.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    kind: io::ErrorKind,
    words: String,
    is_passing: bool,
}

impl Elsewhere {
    pub(super) fn new(nodes: Nodes, disk: Disk) -> Self {
        Self { nodes, disk, flights: Arc::default() }
    }

    /// Brings a blob here and keeps it, waiting so long for a node that may have it and is away. Whether it is here now.
    pub(super) async fn bring(
        &self,
        files: &BlobFiles,
        hash: &BlobHash,
        patience: Duration,
    ) -> io::Result<bool> {
        let until = Instant::now() + patience;
        let mut said = false;
        loop {
            match self.bring_once(files, hash).await {
                Err(failure) if failure.is_passing && Instant::now() < until => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(error = failure.words, %hash, "waiting for another node that may have a blob");
                    }
                    tokio::time::sleep(sunaba_nodes::RETRY).await;
                }
                landed => return landed.map_err(|failure| io::Error::new(failure.kind, failure.words)),
            }
        }
    }

    async fn bring_once(&self, files: &BlobFiles, hash: &BlobHash) -> Landing {
        loop {
            match self.flights.board(hash).await {
                Boarded::Landed(landing) => return landing,
                // Whoever flew it was called off; somebody who waited takes over.
                Boarded::CalledOff => {}
                Boarded::Pilot(mut flight) => {
                    // It may have landed between the look at the disk and now.
                    let landing = match files.open_here(hash).await {
                        Ok(Some(_)) => Ok(true),
                        _ => self.fetch(files, hash).await,
                    };
                    flight.land(landing.clone());
                    return landing;
                }
            }
        }
    }

    /// Asks one node after the other; at last those that have joined since the nodes were read.
    async fn fetch(&self, files: &BlobFiles, hash: &BlobHash) -> Landing {
        self.disk.check().map_err(full)?;
        let (mut away, mut asked) = (None, HashSet::from([self.nodes.me().clone()]));
        for is_anew in [false, true] {
            let nodes = if is_anew { self.nodes.list_now().await } else { self.nodes.list().await };
            for node in nodes.map_err(failure)?.iter().map(|node| &node.report.id) {
                if !asked.insert(node.clone()) {
                    continue;
                }
                match self.fetch_from(node, files, hash).await {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(failure) if failure.kind == io::ErrorKind::StorageFull => return Err(failure),
                    Err(failure) => away = Some(failure),
                }
            }
        }
        away.map_or(Ok(false), Err)
    }

    async fn fetch_from(&self, node: &NodeId, files: &BlobFiles, hash: &BlobHash) -> Landing {
        let answer = match self.nodes.open_blob(node, hash).await {
            Ok(answer) => answer,
            Err(Error::Refused { status: 404, .. } | Error::Gone(_)) => return Ok(false),
            Err(error) => return Err(failure(error)),
        };
        if answer.content_length().is_some_and(|bytes| bytes > BLOB_MAX_BYTES as u64) {
            tracing::error!(%node, %hash, "a node gave a blob that is too large");
            return Ok(false);
        }
        let mut no_room = None;
        let pieces = answer.bytes_stream().map(|piece| {
            let piece = piece.map_err(drop)?;
            self.disk.check().map_err(|error| no_room = Some(full(error)))?;
            Ok::<_, ()>(piece)
        });
        let written = files.write_unfinished(pieces, PAUSE).await;
        if let Some(failure) = no_room {
            return Err(failure);
        }
        match written {
            Ok(written) if written.hash == *hash => {
                files.give_name(&written).await.map_err(|error| broken(&error))?;
                Ok(true)
            }
            Ok(_) | Err(BlobError::TooLarge) => {
                tracing::error!(%node, %hash, "a node gave other bytes than asked for");
                Ok(false)
            }
            Err(error @ BlobError::Interrupted) => Err(failure(Error::Away {
                node: node.clone(),
                why: format!("in the middle of a blob: {error}"),
            })),
            Err(BlobError::Io(error)) => Err(broken(&error)),
        }
    }
}

fn failure(error: Error) -> Failure {
    Failure { kind: io::ErrorKind::Other, is_passing: error.is_passing(), words: error.to_string() }
}

fn full(words: String) -> Failure {
    Failure { kind: io::ErrorKind::StorageFull, is_passing: false, words }
}

fn broken(error: &io::Error) -> Failure {
    Failure { kind: error.kind(), is_passing: false, words: error.to_string() }
}

/// The fetches under way. As many as there are blobs that somebody waits for.
#[derive(Debug, Default)]
struct Flights(Mutex<HashMap<BlobHash, Arc<tokio::sync::Mutex<Option<Landing>>>>>);

/// What one finds who comes for a blob.
enum Boarded {
    /// Nobody fetches it: one does so oneself.
    Pilot(Flight),
    /// Somebody did, with this end.
    Landed(Landing),
    /// Somebody began to.
    CalledOff,
}

impl Flights {
    async fn board(self: &Arc<Self>, hash: &BlobHash) -> Boarded {
        let under_way = {
            let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match flights.get(hash) {
                Some(flight) => Arc::clone(flight),
                None => {
                    let flight = Arc::new(tokio::sync::Mutex::new(None));
                    let seat = Arc::clone(&flight).try_lock_owned().expect("nobody knows of it yet");
                    flights.insert(hash.clone(), flight);
                    return Boarded::Pilot(Flight { all: Arc::clone(self), hash: hash.clone(), seat });
                }
            }
        };
        let landed = under_way.lock().await.clone();
        landed.map_or(Boarded::CalledOff, Boarded::Landed)
    }
}

/// One's own fetch. Others wait until it is dropped.
struct Flight {
    all: Arc<Flights>,
    hash: BlobHash,
    seat: OwnedMutexGuard<Option<Landing>>,
}

impl Flight {
    fn land(&mut self, landing: Landing) {
        *self.seat = Some(landing);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Before those who wait are let on: who finds no end begins anew.
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.hash);
    }
}
