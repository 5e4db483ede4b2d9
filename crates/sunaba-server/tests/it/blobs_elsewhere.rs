//! Blobs that another node has: fetched once, as they come, whole or not at all.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures::StreamExt as _;
use sunaba_nodes::Nodes;
use sunaba_server::BlobFiles;
use sunaba_store::Store;
use sunaba_testkit::{eventually, open_store, within};
use sunaba_types::limits::BLOB_MAX_BYTES;
use sunaba_types::{BlobHash, Clock as _, NodeId, NodeReport, Role, SystemClock};
use tokio::sync::watch;

const PIECE: usize = 64 * 1024;

/// What a node does when it is asked for a blob.
#[derive(Clone)]
enum Manner {
    /// Gives these bytes, the second half only once it is let.
    Gives(Bytes),
    /// Gives half of them and breaks off, as long as it is not let.
    BreaksOff(Bytes),
    /// Gives zeroes without an end.
    Endless,
}

/// Another node.
struct Other {
    asked: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Other {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// This node's blobs, on a store that knows other nodes too.
struct World {
    _dir: tempfile::TempDir,
    store: Arc<dyn Store>,
    root: PathBuf,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open_store(dir.path(), Arc::new(SystemClock)).await;
        Self { root: dir.path().join("blobs"), store, _dir: dir }
    }

    fn files(&self, disk_free_bytes: u64) -> BlobFiles {
        let me = NodeId::parse("a").unwrap();
        let nodes = Nodes::new(me, Arc::clone(&self.store), "token".into()).unwrap();
        BlobFiles::new(&self.root).with_nodes(nodes, disk_free_bytes)
    }

    async fn other(&self, id: &str, manner: Manner) -> Other {
        let (open, let_on) = watch::channel(false);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let answer = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let body = body(manner.clone(), let_on.clone());
            async move { body }
        };
        let router = Router::new().route("/internal/v1/blobs/{hash}", get(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let report = NodeReport {
            id: NodeId::parse(id).unwrap(),
            instance: "i".into(),
            host: "h".into(),
            address,
            version: "1".into(),
            roles: Role::ALL.to_vec(),
            providers: Vec::new(),
            max_sandboxes: 10,
            loops: serde_json::json!({}),
            started_at: SystemClock.now(),
        };
        self.store.enter_node(&report).await.unwrap();
        Other { asked, open }
    }

    /// The sizes of files that are not yet blobs.
    fn unfinished(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let unfinished = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        unfinished.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).collect()
    }
}

fn body(manner: Manner, mut let_on: watch::Receiver<bool>) -> Body {
    let (bytes, breaks_off) = match manner {
        Manner::Endless => {
            let zeroes = Bytes::from(vec![0; PIECE]);
            return Body::from_stream(futures::stream::repeat(zeroes).map(Ok::<_, io::Error>));
        }
        Manner::Gives(bytes) => (bytes, false),
        Manner::BreaksOff(bytes) => (bytes, true),
    };
    let pieces: Vec<Bytes> = bytes.chunks(PIECE).map(Bytes::copy_from_slice).collect();
    let half = pieces.len() / 2;
    let rest = pieces[half..].to_vec();
    let second = futures::stream::once(async move {
        if breaks_off && !*let_on.borrow() {
            return vec![Err(io::Error::other("cut"))];
        }
        let _ = let_on.wait_for(|open| *open).await;
        rest.into_iter().map(Ok).collect()
    });
    let first = futures::stream::iter(pieces[..half].to_vec()).map(Ok);
    Body::from_stream(first.chain(second.flat_map(futures::stream::iter)))
}

fn large() -> (Bytes, BlobHash) {
    let bytes: Vec<u8> = (0..8u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let hash = BlobHash::of(&bytes);
    (bytes.into(), hash)
}

async fn size(files: &BlobFiles, hash: &BlobHash) -> io::Result<Option<u64>> {
    Ok(within("a blob", files.open(hash)).await?.map(|(_, size)| size))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_is_fetched_once_for_all_who_ask_and_written_as_it_comes() {
    let (world, (bytes, hash)) = (World::start().await, large());
    let other = world.other("b", Manner::Gives(bytes.clone())).await;
    let files = world.files(0);
    let asking: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn({
                let (files, hash) = (files.clone(), hash.clone());
                async move { size(&files, &hash).await }
            })
        })
        .collect();
    // Half of it is on the disk while the rest is not even sent.
    eventually("half of it is written", async || {
        world.unfinished().iter().any(|size| *size >= bytes.len() as u64 / 2)
    })
    .await;
    assert!(!files.path(&hash).exists());
    other.open.send_replace(true);
    for asked in asking {
        assert_eq!(asked.await.unwrap().unwrap(), Some(bytes.len() as u64));
    }
    assert_eq!((other.asked(), world.unfinished().len()), (1, 0));
    assert_eq!(std::fs::read(files.path(&hash)).unwrap(), bytes);
    assert_eq!(size(&files, &hash).await.unwrap(), Some(bytes.len() as u64));
    assert_eq!(other.asked(), 1, "it is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_goes_on_when_the_one_who_fetched_is_called_off() {
    let (world, (bytes, hash)) = (World::start().await, large());
    let other = world.other("b", Manner::Gives(bytes.clone())).await;
    let files = world.files(0);
    let ask = || {
        let (files, hash) = (files.clone(), hash.clone());
        tokio::spawn(async move { size(&files, &hash).await })
    };
    let first = ask();
    eventually("it is asked", async || other.asked() == 1).await;
    let second = ask();
    first.abort();
    eventually("it is asked again", async || other.asked() == 2).await;
    other.open.send_replace(true);
    assert_eq!(second.await.unwrap().unwrap(), Some(bytes.len() as u64));
    assert_eq!(world.unfinished().len(), 0, "nothing of the first is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_bytes_than_asked_for_are_not_kept_and_the_next_node_is_asked() {
    let (world, (bytes, hash)) = (World::start().await, large());
    let endless = world.other("b", Manner::Endless).await;
    let wrong = world.other("c", Manner::Gives(bytes.slice(1..))).await;
    wrong.open.send_replace(true);
    let files = world.files(0);
    assert_eq!(size(&files, &hash).await.unwrap(), None);
    assert_eq!((endless.asked(), wrong.asked(), world.unfinished().len()), (1, 1, 0));
    assert!(BLOB_MAX_BYTES > bytes.len());
    let right = world.other("d", Manner::Gives(bytes.clone())).await;
    right.open.send_replace(true);
    eventually("the new node is known", async || {
        size(&files, &hash).await.unwrap() == Some(bytes.len() as u64)
    })
    .await;
    assert_eq!(world.unfinished().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_broke_off_leaves_nothing_and_is_tried_again() {
    let (world, (bytes, hash)) = (World::start().await, large());
    let other = world.other("b", Manner::BreaksOff(bytes.clone())).await;
    let files = world.files(0);
    let broken = size(&files, &hash).await.unwrap_err();
    assert!(broken.to_string().contains("in the middle of a blob"), "{broken}");
    assert_eq!((world.unfinished().len(), files.path(&hash).exists()), (0, false));
    other.open.send_replace(true);
    assert_eq!(size(&files, &hash).await.unwrap(), Some(bytes.len() as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_room_is_not_filled_further() {
    let (world, (bytes, hash)) = (World::start().await, large());
    let other = world.other("b", Manner::Gives(bytes)).await;
    let full = size(&world.files(u64::MAX), &hash).await.unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert!(full.to_string().contains("orchestrator.disk_free_gb"), "{full}");
    assert_eq!(other.asked(), 0);
}
