//! How long a read may take.

use std::time::Duration;

use sunaba_store::Result;
use sunaba_store_sql::page::within;

pub(crate) use sunaba_store_sql::page::gather;

const READ_LIMIT: Duration = Duration::from_secs(2);

/// Gives a read up when its time is over.
pub(crate) async fn in_time<T>(reading: impl Future<Output = Result<T>>) -> Result<T> {
    within(READ_LIMIT, reading).await
}
