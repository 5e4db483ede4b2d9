//! How much and how long a read may be: rows are taken until a page is full by bytes (the query bounds
//! their number), and nobody waits for a page without end.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use sunaba_store::{Error, PAGE_BYTES, Result};

/// What a row adds to a page, in bytes.
pub trait Weight {
    /// See the trait.
    fn weight(&self) -> usize;
}

/// How many things of these sizes fit a page, from the front: at least one, if there is one.
pub fn fitting(sizes: impl IntoIterator<Item = i64>) -> usize {
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
pub async fn gather<R: Weight, E>(
    mut rows: impl Stream<Item = Result<R, E>> + Unpin,
) -> Result<(Vec<R>, bool), E> {
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
#[error("the read took longer than {0:?}")]
struct TooSlow(Duration);

/// Gives a read up when its time is over.
pub async fn within<T>(limit: Duration, reading: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(limit, reading).await {
        Ok(read) => read,
        Err(_) => Err(Error::Unavailable(Box::new(TooSlow(limit)))),
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
        let (rows, cut) = gather::<_, std::convert::Infallible>(rows).await.unwrap();
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
        let read: Result<()> = within(Duration::from_millis(20), std::future::pending()).await;
        let Err(Error::Unavailable(cause)) = read else { panic!("{read:?}") };
        assert_eq!(cause.to_string(), "the read took longer than 20ms");
    }
}
