//! How many rows to ask for, so that a batch is neither tiny nor too large to hold.

use super::{BATCH_ROWS, Row};
use crate::PAGE_BYTES;

/// How many rows of unknown size are asked for first: each may have a megabyte.
const FIRST: usize = 16;

/// Gathers a batch and learns from it how many rows to ask for next.
#[derive(Debug)]
pub struct Pace {
    limit: usize,
    rows: Vec<Row>,
    bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { limit: FIRST, rows: Vec::new(), bytes: 0 }
    }
}

impl Pace {
    /// How many rows to ask for.
    pub fn limit(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    /// Takes a row; `false` when the batch is full.
    pub fn take(&mut self, row: Row) -> bool {
        self.bytes += row.iter().map(super::Cell::weight).sum::<usize>();
        self.rows.push(row);
        self.bytes < PAGE_BYTES
    }

    /// Ends the batch.
    pub fn batch(&mut self) -> Vec<Row> {
        let rows = std::mem::take(&mut self.rows);
        let average = std::mem::take(&mut self.bytes) / rows.len().max(1) + 1;
        self.limit = (PAGE_BYTES / average).clamp(1, BATCH_ROWS).min(self.limit * 8);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Cell;

    fn row(bytes: usize) -> Row {
        vec![Cell::Bytes(vec![0; bytes])]
    }

    #[test]
    fn large_rows_are_asked_for_a_few_at_a_time_and_small_ones_by_the_thousand() {
        let mut pace = Pace::default();
        for _ in 0..4 {
            (0..pace.limit()).for_each(|_| assert!(pace.take(row(10))));
            pace.batch();
        }
        assert_eq!(pace.limit(), 1000);
        let taken = (0..1000).take_while(|_| pace.take(row(1024 * 1024))).count();
        assert_eq!((taken, pace.batch().len()), (7, 8));
        assert_eq!(pace.limit(), 7);
        assert!(pace.batch().is_empty());
    }
}
