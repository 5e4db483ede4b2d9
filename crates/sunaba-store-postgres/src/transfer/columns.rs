//! How PostgreSQL keeps each column: how it is read, and how a column of many rows is given.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use sunaba_store::transfer::{Cell, Column, Kind, Row, Table};
use sunaba_store::{Error, Result};

/// A query that values are given to.
type Given<'q> = Query<'q, Postgres, PgArguments>;

/// How a column is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Int,
    /// A number of two bytes.
    Small,
    Real,
    Text,
    /// Text as its bytes, which may be what PostgreSQL takes for no text.
    TextInBytes,
    Bytes,
    /// An array of texts.
    List,
}

/// Where rows of a table are kept: some tables are views here, of other rows.
pub(super) fn kept_in(table: &Table) -> &'static str {
    match table.name {
        "event_type_counts" => "event_types",
        "outline" => "closed_turns",
        name => name,
    }
}

/// Whether a column follows from other rows here.
pub(super) fn follows(table: &Table, column: &Column) -> bool {
    (table.name, column.name) == ("event_type_counts", "count")
}

impl Form {
    pub(super) fn of(table: &Table, column: &Column) -> Self {
        match (table.name, column.name, column.kind) {
            ("events", "payload", _) => Self::TextInBytes,
            ("events", "class", _) => Self::Small,
            (_, _, Kind::Int) => Self::Int,
            (_, _, Kind::Real) => Self::Real,
            (_, _, Kind::Text) => Self::Text,
            (_, _, Kind::Bytes) => Self::Bytes,
            (_, _, Kind::List) => Self::List,
        }
    }

    /// The type in which many of them are given.
    pub(super) const fn array(self) -> &'static str {
        match self {
            Self::Int | Self::Small => "bigint[]",
            Self::Real => "float8[]",
            Self::Text | Self::List => "text[]",
            Self::TextInBytes | Self::Bytes => "bytea[]",
        }
    }

    /// What one of them, given so, becomes in the table.
    pub(super) fn kept(self, name: &str) -> String {
        match self {
            Self::Small => format!("u.{name}::smallint"),
            Self::List => format!(
                "ARRAY(SELECT e.item FROM jsonb_array_elements_text(u.{name}::jsonb) \
                 WITH ORDINALITY AS e (item, place) ORDER BY e.place)"
            ),
            Self::Int | Self::Real | Self::Text | Self::TextInBytes | Self::Bytes => format!("u.{name}"),
        }
    }

    pub(super) fn read(self, row: &PgRow, place: usize) -> Result<Cell, sqlx::Error> {
        let wrong = |source| sqlx::Error::ColumnDecode { index: place.to_string(), source };
        let cell = match self {
            Self::Int => row.try_get::<Option<i64>, _>(place)?.map(Cell::Int),
            Self::Small => row.try_get::<Option<i16>, _>(place)?.map(|number| Cell::Int(number.into())),
            Self::Real => row.try_get::<Option<f64>, _>(place)?.map(Cell::Real),
            Self::Text => row.try_get::<Option<String>, _>(place)?.map(Cell::Text),
            Self::TextInBytes => {
                let bytes = row.try_get::<Option<Vec<u8>>, _>(place)?;
                bytes.map(String::from_utf8).transpose().map_err(|error| wrong(error.into()))?.map(Cell::Text)
            }
            Self::Bytes => row.try_get::<Option<Vec<u8>>, _>(place)?.map(Cell::Bytes),
            Self::List => {
                let items = row.try_get::<Option<Vec<String>>, _>(place)?;
                items.map(|items| Cell::Text(serde_json::Value::from(items).to_string()))
            }
        };
        Ok(cell.unwrap_or(Cell::Null))
    }
}

/// The query with one key's value.
pub(super) fn with_key<'q>(query: Given<'q>, cell: &Cell) -> Given<'q> {
    match cell {
        Cell::Null => query.bind(None::<String>),
        Cell::Int(number) => query.bind(*number),
        Cell::Real(number) => query.bind(*number),
        Cell::Text(text) => query.bind(text.clone()),
        Cell::Bytes(bytes) => query.bind(bytes.clone()),
    }
}

/// The query with one column of all rows.
pub(super) fn with_column<'q>(
    query: Given<'q>,
    table: &Table,
    place: usize,
    rows: &mut [Row],
) -> Result<Given<'q>> {
    let column = &table.columns[place];
    let form = Form::of(table, column);
    let cells = rows.iter_mut().map(|row| std::mem::replace(&mut row[place], Cell::Null));
    let misfit = || {
        let detail = format!("{}.{} has a value that PostgreSQL cannot keep", table.name, column.name);
        Error::conflict("value_unfit", detail)
    };
    Ok(match form {
        Form::Int | Form::Small => query.bind(all(cells, int).ok_or_else(misfit)?),
        Form::Real => query.bind(all(cells, real).ok_or_else(misfit)?),
        Form::Text | Form::List => query.bind(all(cells, text).ok_or_else(misfit)?),
        Form::TextInBytes | Form::Bytes => query.bind(all(cells, bytes).ok_or_else(misfit)?),
    })
}

/// The values, each of which may be none; nothing if one does not fit.
fn all<T>(cells: impl Iterator<Item = Cell>, value: fn(Cell) -> Option<T>) -> Option<Vec<Option<T>>> {
    cells
        .map(|cell| match cell {
            Cell::Null => Some(None),
            other => value(other).map(Some),
        })
        .collect()
}

fn int(cell: Cell) -> Option<i64> {
    if let Cell::Int(number) = cell { Some(number) } else { None }
}

fn real(cell: Cell) -> Option<f64> {
    if let Cell::Real(number) = cell { Some(number) } else { None }
}

/// PostgreSQL's text has no NUL.
fn text(cell: Cell) -> Option<String> {
    if let Cell::Text(text) = cell { Some(text).filter(|text| !text.contains('\0')) } else { None }
}

fn bytes(cell: Cell) -> Option<Vec<u8>> {
    match cell {
        Cell::Bytes(bytes) => Some(bytes),
        Cell::Text(text) => Some(text.into_bytes()),
        Cell::Null | Cell::Int(_) | Cell::Real(_) => None,
    }
}
