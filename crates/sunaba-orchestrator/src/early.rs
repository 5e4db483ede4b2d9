//! What is recorded while a sandbox waits for a follow-up, beside the watching: publishing may take minutes, and neither
//! a cancellation nor an exit waits for it.

use futures::future::BoxFuture;

use crate::Error;

/// One recording at a time; one that is wanted meanwhile comes after it.
pub(crate) struct Early<'a, Make> {
    make: Make,
    under_way: Option<BoxFuture<'a, Result<(), Error>>>,
    is_wanted: bool,
}

impl<'a, Make> Early<'a, Make>
where
    Make: FnMut() -> BoxFuture<'a, Result<(), Error>>,
{
    pub(crate) fn new(make: Make) -> Self {
        Self { make, under_way: None, is_wanted: false }
    }

    /// There is something to be recorded.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Goes on until a recording fails; never ends otherwise. Nothing is lost when it is dropped and called again.
    pub(crate) async fn trouble(&mut self) -> Error {
        match self.settle().await {
            Err(error) => error,
            Ok(()) => std::future::pending().await,
        }
    }

    /// Waits until everything that was wanted is recorded.
    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        loop {
            if self.under_way.is_none() && std::mem::take(&mut self.is_wanted) {
                self.under_way = Some((self.make)());
            }
            let Some(recording) = &mut self.under_way else { return Ok(()) };
            let recorded = recording.await;
            self.under_way = None;
            recorded?;
        }
    }
}

/// Does something to its end while the recording goes on: that may hold what the other waits for.
pub(crate) async fn beside<'a, Make, T>(early: &mut Early<'a, Make>, work: impl Future<Output = T>) -> T
where
    Make: FnMut() -> BoxFuture<'a, Result<(), Error>>,
{
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            error = early.trouble() => tracing::warn!(%error, "a result is not recorded while its sandbox ends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    const A_MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn records_one_after_the_other_and_forgets_none() {
        let (begun, slow) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let mut early = Early::new(|| {
            let slow = Arc::clone(&slow);
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                slow.acquire().await.unwrap().forget();
                Ok(())
            }
            .boxed()
        });
        early.settle().await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 0, "nothing was wanted");
        early.want();
        assert!(timeout(A_MOMENT, early.trouble()).await.is_err(), "it is slow");
        early.want();
        assert!(timeout(A_MOMENT, early.trouble()).await.is_err());
        assert_eq!(begun.load(Ordering::SeqCst), 1, "the first goes on where it was");
        slow.add_permits(2);
        early.settle().await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn goes_on_beside_what_waits_for_it() {
        let lock = Arc::new(Semaphore::new(0));
        let mut early = Early::new(|| {
            let lock = Arc::clone(&lock);
            async move {
                tokio::task::yield_now().await;
                lock.add_permits(1);
                Err(Error::Missing("no branch".to_owned()))
            }
            .boxed()
        });
        early.want();
        let work = async { lock.acquire().await.unwrap().forget() };
        timeout(Duration::from_secs(10), beside(&mut early, work)).await.expect("it is not held up");
    }

    #[tokio::test]
    async fn tells_what_went_wrong() {
        let mut early = Early::new(|| async { Err(Error::Missing("no branch".to_owned())) }.boxed());
        early.want();
        assert!(early.trouble().await.to_string().contains("no branch"));
    }
}
