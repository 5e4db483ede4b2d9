//! How much and how long a read may be: rows are taken until a page is full by bytes (the query bounds
//! their number), and nobody waits for a page without end.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use sunaba_store::{Error, PAGE_BYTES, Result};

use crate::fault::told;

/// How long a read may take; longer than a statement may, so that a server that answers says itself what is wrong.
const READ_LIMIT: Duration = Duration::from_secs(3);

/// What a row adds to a page, in bytes.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

/// How many things of these sizes fit a page, from the front: at least one, if there is one.
pub(crate) fn fitting(sizes: impl IntoIterator<Item = i64>) -> usize {
    let most = i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX);
    let mut bytes = 0_i64;
    sizes
        .into_iter()
        .take_while(|size| {
            let fits = bytes < most;
            bytes = bytes.saturating_add(*size);
            fits
        })
        .count()
}

/// The rows of a page, and whether it ended before the rows did.
pub(crate) async fn gather<R: Weight>(
    mut rows: impl Stream<Item = Result<R, sqlx::Error>> + Unpin,
) -> Result<(Vec<R>, bool), sqlx::Error> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().await {
        let row = row?;
        if bytes >= PAGE_BYTES {
            return Ok((taken, true));
        }
        bytes += row.weight();
        taken.push(row);
    }
    Ok((taken, false))
}

/// A read took too long.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the read took longer than {READ_LIMIT:?}")]
struct TooSlow;

/// Gives a query up when its time is over: a server that hangs, or a network that swallows, must not hold anybody.
pub(crate) trait InTime<T> {
    fn in_time(self) -> impl Future<Output = Result<T>> + Send;
}

impl<T, F> InTime<T> for F
where
    F: Future<Output = Result<T, sqlx::Error>> + Send,
{
    async fn in_time(self) -> Result<T> {
        in_time(async { self.await.map_err(told) }).await
    }
}

/// Gives a read up when its time is over.
pub(crate) async fn in_time<T>(reading: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(READ_LIMIT, reading).await {
        Ok(read) => read,
        Err(_) => Err(Error::Unavailable(Box::new(TooSlow))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weight for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    async fn taken(weights: &[usize]) -> (usize, bool) {
        let rows = futures::stream::iter(weights.iter().copied().map(Ok));
        let (rows, cut) = gather(rows).await.unwrap();
        (rows.len(), cut)
    }

    #[tokio::test]
    async fn a_page_ends_by_bytes_and_says_whether_there_was_more() {
        assert_eq!(taken(&[]).await, (0, false));
        assert_eq!(taken(&[PAGE_BYTES * 2]).await, (1, false));
        assert_eq!(taken(&[PAGE_BYTES * 2, 1]).await, (1, true));
        assert_eq!(taken(&[PAGE_BYTES / 2, PAGE_BYTES / 2, 1, 1]).await, (2, true));
        assert_eq!(taken(&[1; 100]).await, (100, false));
    }

    #[test]
    fn sizes_fit_as_rows_do() {
        let page = i64::try_from(PAGE_BYTES).unwrap();
        assert_eq!(fitting([]), 0);
        assert_eq!(fitting([page * 2]), 1);
        assert_eq!(fitting([page * 2, 1]), 1);
        assert_eq!(fitting([page / 2, page / 2, 1, 1]), 2);
        assert_eq!(fitting(vec![1; 100]), 100);
    }

    #[tokio::test]
    async fn a_read_without_end_is_given_up() {
        let started = std::time::Instant::now();
        let read: Result<()> = in_time(std::future::pending()).await;
        assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
        assert!(started.elapsed() < READ_LIMIT * 3);
    }
}
