//! One value of one row, and rows as lines of text.
//!
//! A row is a JSON list in the order of its table's columns. What a cell is follows from its column: whole
//! numbers are numbers, fractions are text (JSON does not keep every one exactly), bytes are hexadecimal.

use serde::{Serialize, Serializer};
use serde_json::Value;
use sunaba_types::chain::hex;

use super::tables::{Kind, Table};
use crate::{Error, Result};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// A whole number.
    Int(i64),
    /// A fraction.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The values of one row, in the order of its table's columns.
pub type Row = Vec<Cell>;

impl Cell {
    /// About how many bytes it has.
    pub fn weight(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn read(value: Value, kind: Kind) -> Option<Self> {
        match (kind, value) {
            (_, Value::Null) => Some(Self::Null),
            (Kind::Int, Value::Number(number)) => number.as_i64().map(Self::Int),
            (Kind::Real, Value::String(text)) => text.parse().ok().map(Self::Real),
            (Kind::Text | Kind::List, Value::String(text)) => Some(Self::Text(text)),
            (Kind::Bytes, Value::String(text)) => unhex(&text).map(Self::Bytes),
            _ => None,
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Real(number) => serializer.serialize_str(&format!("{number:?}")),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
        }
    }
}

/// A row as one line, without its end.
pub fn encode(row: &[Cell]) -> String {
    serde_json::to_string(row).expect("cells are text and numbers")
}

/// Reads a line of a table.
pub fn decode(table: &'static Table, line: &str) -> Result<Row> {
    read(line, table.columns.iter().map(|column| column.kind), table)
}

/// Reads a key of a table.
pub(super) fn decode_key(table: &'static Table, line: &str) -> Result<Vec<Cell>> {
    read(line, table.key_places().map(|place| table.columns[place].kind), table)
}

fn read(line: &str, kinds: impl ExactSizeIterator<Item = Kind>, table: &'static Table) -> Result<Row> {
    let wrong = || Error::conflict("row_unreadable", format!("a row of {} cannot be read", table.name));
    let values: Vec<Value> = serde_json::from_str(line).map_err(|_| wrong())?;
    if values.len() != kinds.len() {
        return Err(wrong());
    }
    values.into_iter().zip(kinds).map(|(value, kind)| Cell::read(value, kind).ok_or_else(wrong)).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TABLES;

    #[test]
    fn rows_come_back_as_they_were() {
        for table in &TABLES {
            let row: Row = table
                .columns
                .iter()
                .map(|column| match column.kind {
                    Kind::Int => Cell::Int(i64::MIN),
                    Kind::Real => Cell::Real(0.1 + 0.2),
                    Kind::Text => Cell::Text("\"\u{1f980}\n\u{2028}\\".to_owned()),
                    Kind::List => Cell::Text(r#"["a","b"]"#.to_owned()),
                    Kind::Bytes => Cell::Bytes(vec![0, 255, 16]),
                })
                .collect();
            assert_eq!(decode(table, &encode(&row)).unwrap(), row);
            let empty = vec![Cell::Null; table.columns.len()];
            assert_eq!(decode(table, &encode(&empty)).unwrap(), empty);
            let key = table.key_of(&row);
            assert_eq!(decode_key(table, &encode(&key)).unwrap(), key);
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let table = &TABLES[0];
        for line in ["", "{}", "[]", r#"["a"]"#, r#"["a","b","c"]"#, r#"["a",1]"#] {
            assert!(decode(table, line).is_err(), "{line}");
        }
    }
}
