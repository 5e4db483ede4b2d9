//! How long a read may take.

use std::time::Duration;

use sunaba_store::Result;
use sunaba_store_sql::page::within;

pub(crate) use sunaba_store_sql::page::{fitting, gather};

use crate::fault::told;

/// How long a read may take; longer than a statement may, so that a server that answers says itself what is wrong.
const READ_LIMIT: Duration = Duration::from_secs(3);

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
    within(READ_LIMIT, reading).await
}
