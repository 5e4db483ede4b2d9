//! What an archive says of itself, at its beginning and at its end.

use serde::{Deserialize, Serialize};
use sunaba_store::transfer::{TABLES, Table, TableSum};
use sunaba_types::Timestamp;
use sunaba_types::chain::{Hash, hex};

use crate::Error;

/// The number of the form that this program writes and reads.
pub(crate) const FORMAT: u32 = 1;

/// What is in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// The rows of the installation and the files of one node.
    Everything,
    /// The files of one node.
    FilesOnly,
}

/// The first entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The number of the form.
    pub format: u32,
    /// The program that made it.
    pub version: String,
    /// When.
    pub made_at: Timestamp,
    /// What is in it.
    pub contents: Contents,
    /// The installation, where it has an id.
    pub installation_id: Option<String>,
    /// The node whose files are in it.
    pub node_id: Option<String>,
    /// The kind of store that the rows are from.
    pub store: String,
    /// The tables and their columns, in the order of a line.
    pub tables: Vec<TableForm>,
    /// For people.
    pub note: String,
}

/// The form of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableForm {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
}

/// What people are told in every archive.
pub(crate) const NOTE: &str = "The secret key is not in this archive: without it nobody can read the projects' \
                               secrets. Keep it elsewhere.";

impl TableForm {
    /// The tables as this program knows them.
    pub(crate) fn all() -> Vec<Self> {
        let form = |table: &Table| Self {
            name: table.name.to_owned(),
            columns: table.columns.iter().map(|column| column.name.to_owned()).collect(),
        };
        TABLES.iter().map(form).collect()
    }
}

/// The last entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trailer {
    /// Of every byte before this entry, in hexadecimal.
    pub sha256: String,
    /// How many rows each table has, and their sum.
    pub tables: Vec<Sum>,
    /// The last position of the feed.
    pub feed_head: i64,
    /// How many blobs.
    pub blobs: u64,
    /// How many mirrors.
    pub mirrors: u64,
}

/// How many rows a table has, and the SHA-256 of their lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The table.
    pub table: String,
    /// How many rows.
    pub rows: i64,
    /// Of every line with its end, in hexadecimal.
    pub sha256: String,
}

impl From<&TableSum> for Sum {
    fn from(sum: &TableSum) -> Self {
        Self { table: sum.table.name.to_owned(), rows: sum.rows, sha256: hex(&sum.sha256) }
    }
}

impl Trailer {
    /// How many rows a table has.
    pub fn rows(&self, table: &str) -> i64 {
        self.tables.iter().find(|sum| sum.table == table).map_or(0, |sum| sum.rows)
    }

    /// Whether a restored store has exactly these rows.
    pub(crate) fn check(&self, found: &[TableSum]) -> Result<(), Error> {
        let found: Vec<Sum> = found.iter().map(Sum::from).collect();
        match self.tables.iter().zip(&found).find(|(expected, found)| expected != found) {
            None if self.tables.len() == found.len() => Ok(()),
            Some((sum, _)) => Err(Error::Unusable(format!("{} was not restored as it was", sum.table))),
            None => Err(Error::Unusable("not every table was restored".to_owned())),
        }
    }

    /// Whether this is the sum of what comes before.
    pub(crate) fn is_of(&self, sha256: &Hash) -> bool {
        self.sha256 == hex(sha256)
    }
}
