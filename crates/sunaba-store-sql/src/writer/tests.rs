//! The lanes and the search for the culprit, with a database that refuses what it is told to.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Append, Appended, Rejection, Result};
use sunaba_types::{EventPayload, Source, Timestamp};
use tokio::sync::watch;

use super::*;
use crate::fault::Fault;

/// Refuses, when it is written, an event whose id is "bad"; keeps the ids of the others.
#[derive(Default)]
struct Picky {
    collected: Vec<String>,
    written: Vec<String>,
    points: usize,
}

impl Transaction for Picky {
    type Needs = ();
    type Saved = usize;

    fn told(error: sqlx::Error) -> Error {
        Error::Backend(Box::new(error))
    }

    fn is_of_a_statement(error: &sqlx::Error) -> bool {
        matches!(error, sqlx::Error::RowNotFound)
    }

    async fn recall_ids(&mut self, _events: &[(&SandboxId, &[NewEvent])]) -> Sql<()> {
        Ok(())
    }

    async fn ingest(&mut self, _id: &SandboxId, _writer: Writer, event: &NewEvent) -> Sql<AppendOutcome> {
        let event_id = event.event_id.clone();
        self.collected.push(event_id.clone());
        Ok(Ok(Appended { seq: 1, event_id, created_at: Timestamp::UNIX_EPOCH, duplicate: false }))
    }

    async fn flush(&mut self) -> Sql<()> {
        let collected = std::mem::take(&mut self.collected);
        if collected.iter().any(|id| id == "lost") {
            return Err(sqlx::Error::PoolClosed);
        }
        if collected.iter().any(|id| id == "bad") {
            return Err(sqlx::Error::RowNotFound);
        }
        self.written.extend(collected);
        Ok(())
    }

    async fn save(&mut self) -> Sql<usize> {
        self.points += 1;
        Ok(self.written.len())
    }

    async fn release(&mut self) -> Sql<()> {
        self.points -= 1;
        Ok(())
    }

    async fn restore(&mut self, saved: usize) -> Sql<()> {
        self.written.truncate(saved);
        self.release().await
    }
}

struct Count;

#[async_trait]
impl Command<Picky> for Count {
    type Output = usize;

    async fn run(&self, unit: &mut Picky) -> Result<usize, Fault> {
        Ok(unit.written.len())
    }
}

fn append(ids: &[&str], payload: &EventPayload) -> Append {
    let event = |id: &&str| NewEvent {
        event_id: (*id).to_owned(),
        event_type: "x".to_owned(),
        source: Source::Agent,
        payload: payload.clone(),
        step: None,
    };
    let events = ids.iter().map(event).collect();
    Append { sandbox_id: SandboxId::generate(), writer: Writer::Registrar, events }
}

fn small() -> EventPayload {
    EventPayload::from_value(&json!({})).unwrap()
}

#[tokio::test]
async fn what_waits_is_bounded_by_bytes_too() {
    let (queue, mut lanes) = Queue::<Picky>::new();
    let queue = Arc::new(queue);
    let payload = EventPayload::from_value(&json!({"text": "x".repeat(1_000_000)})).unwrap();
    let post = || {
        let (queue, heavy) = (Arc::clone(&queue), append(&["e"; 9], &payload));
        tokio::spawn(async move { queue.append(heavy).await })
    };
    let waiting: Vec<_> = (0..7).map(|_| post()).collect();
    let refused = post().await.unwrap().unwrap_err();
    assert!(format!("{refused:?}").contains("Overrun"), "{refused:?}");
    let mut jobs = Vec::new();
    lanes.drain(&mut jobs);
    assert_eq!(jobs.len(), 7);
    drop(jobs);
    for post in waiting {
        assert!(post.await.unwrap().is_err());
    }
    assert!(queue.has_all_its_room(), "room is given back");
}

#[tokio::test]
async fn only_the_culprit_is_refused() {
    let (queue, mut lanes) = Queue::<Picky>::new();
    let (first, second) = (append(&["a", "b", "bad", "c"], &small()), append(&["d"], &small()));
    let answers = async { tokio::join!(queue.append(first), queue.append(second), queue.run(Count)) };
    let work = async {
        let mut jobs = lanes.next_batch().await.unwrap();
        assert_eq!(jobs.len(), 3, "all that waits goes together");
        let (mut unit, pieces) = (Picky::default(), Piece::all(&jobs));
        assert!(pass(&mut unit, &mut jobs, &pieces).await.is_err());
        halves(&mut unit, &mut jobs, pieces).await.unwrap();
        assert_eq!(unit.written, ["a", "b", "c", "d"]);
        assert_eq!(unit.points, 0, "every point was kept or undone");
        jobs.into_iter().for_each(Job::settle);
    };
    let ((first, second, count), ()) = tokio::join!(answers, work);
    let stored: Vec<bool> = first.unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(stored, [true, true, false, true]);
    assert!(second.unwrap()[0].is_ok());
    assert_eq!(count.unwrap(), 0, "commands come first");
}

/// A queue in which so many requests wait.
async fn waiting(many: usize) -> (Arc<Queue<Picky>>, Lanes<Picky>, Vec<tokio::task::JoinHandle<()>>) {
    let (queue, lanes) = Queue::<Picky>::new();
    let queue = Arc::new(queue);
    let post = |_| {
        let (queue, one) = (Arc::clone(&queue), append(&["e"], &small()));
        tokio::spawn(async move { drop(queue.append(one).await) })
    };
    let posts = (0..many).map(post).collect();
    tokio::task::yield_now().await;
    (queue, lanes, posts)
}

#[tokio::test]
async fn requests_are_shared_between_two_transactions() {
    let (_queue, mut lanes, _posts) = waiting(7).await;
    let (under_way, mut others) = watch::channel(0);
    let first = lanes.next_share(2, &mut others).await.unwrap();
    under_way.send_replace(first.len());
    let second = lanes.next_share(2, &mut others).await.unwrap();
    assert_eq!((first.len(), second.len()), (4, 3), "one half, and after its time is up what there is");

    let (_queue, mut lanes, _posts) = waiting(7).await;
    under_way.send_replace(0);
    assert_eq!(lanes.next_share(1, &mut others).await.unwrap().len(), 7, "one alone takes all");
}

#[tokio::test]
async fn a_small_share_waits_for_more_but_not_for_long() {
    let (_queue, mut lanes, _posts) = waiting(1).await;
    let (under_way, mut others) = watch::channel(3);
    let alone = lanes.next_share(2, &mut others).await.unwrap();
    assert_eq!(alone.len(), 1, "nobody came");

    under_way.send_replace(2);
    let (queue, mut lanes, _posts) = waiting(1).await;
    let share = async { lanes.next_share(2, &mut others).await.unwrap().len() };
    let (share, late) = tokio::join!(share, queue.append(append(&["late"], &small())));
    assert!(share == 2 && late.is_err(), "both went together, and nobody answered");
}

#[tokio::test]
async fn a_command_waits_for_no_share() {
    let (_under_way, mut others) = watch::channel(9);
    let (queue, mut lanes) = Queue::<Picky>::new();
    let work = async {
        tokio::select! {
            biased;
            jobs = lanes.next_share(2, &mut others) => jobs.unwrap().into_iter().for_each(Job::settle),
            () = a_few_rounds() => panic!("it waits"),
        }
    };
    let (answer, ()) = tokio::join!(queue.run(Count), work);
    assert!(answer.is_err(), "it was settled without having been run");
}

async fn a_few_rounds() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_outage_is_nobodys_fault() {
    let (queue, mut lanes) = Queue::<Picky>::new();
    let lost = append(&["a", "lost"], &small());
    let work = async {
        let mut jobs = lanes.next_batch().await.unwrap();
        let pieces = Piece::all(&jobs);
        assert!(halves(&mut Picky::default(), &mut jobs, pieces).await.is_err());
        jobs.into_iter().for_each(|job| job.fail(Error::Unavailable("gone".into())));
    };
    let (answer, ()) = tokio::join!(queue.append(lost), work);
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
}

#[tokio::test]
async fn what_was_taken_before_the_stop_still_comes_out() {
    let (queue, mut lanes) = Queue::<Picky>::new();
    let one = append(&["a"], &small());
    let work = async {
        let jobs = lanes.next_batch().await.unwrap();
        queue.stop();
        jobs.into_iter().for_each(Job::settle);
        assert!(lanes.next_batch().await.is_none());
    };
    let (answer, ()) = tokio::join!(queue.append(one), work);
    assert_eq!(answer.unwrap(), [Err(Rejection::Refused("not stored".to_owned()))]);
    assert!(queue.run(Count).await.is_err());
}
