//! Why the store could not be opened, in words that say what to do. No password is in them.

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read.
    #[error("not the address of a PostgreSQL database")]
    Address(#[source] sqlx::Error),
    /// Nobody answers there, or not yet.
    #[error("PostgreSQL does not answer for the database {database} (is it running, is the address right?)")]
    Unreachable {
        /// Server and name.
        database: String,
        /// What happened.
        #[source]
        source: sqlx::Error,
    },
    /// The user may not come in.
    #[error(
        "PostgreSQL does not let the user {user} in to the database {database} (check name and password)"
    )]
    Denied {
        /// Server and name.
        database: String,
        /// Who asked.
        user: String,
        /// What PostgreSQL says.
        #[source]
        source: sqlx::Error,
    },
    /// The server has no such database.
    #[error("PostgreSQL has no database {database}; make it there (`createdb NAME`), Sunaba fills it")]
    Missing {
        /// Server and name.
        database: String,
    },
    /// The database cannot be used.
    #[error("cannot open the database {database}")]
    Open {
        /// Server and name.
        database: String,
        /// What PostgreSQL says.
        #[source]
        source: sqlx::Error,
    },
    /// The database's layout cannot be brought up to date.
    #[error("cannot bring the database {database} up to date (its user must be able to make tables in it)")]
    Migrate {
        /// Server and name.
        database: String,
        /// What went wrong.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// A newer program has taken something away that this one needs.
    #[error(
        "the database {database} needs layout {needed} and this program knows {known}: a newer program has taken \
         away what this one needs; start the newer one in its place"
    )]
    TooNew {
        /// Server and name.
        database: String,
        /// The oldest layout that may be used.
        needed: i64,
        /// The newest layout that this program knows.
        known: i64,
    },
    /// Something is being moved into it.
    #[error(
        "a move into the database {database} is not finished: finish it with the same command that began it, or \
         drop the database and make it anew"
    )]
    Unfinished {
        /// Server and name.
        database: String,
    },
    /// The server acknowledges before the disk has it.
    #[error("the database {database} has {setting} off: what it acknowledges can be lost; turn it on")]
    NotDurable {
        /// Server and name.
        database: String,
        /// What is off.
        setting: &'static str,
    },
}

impl OpenError {
    /// What a refused connection means.
    pub(crate) fn of_connecting(database: &str, user: &str, source: sqlx::Error) -> Self {
        let database = database.to_owned();
        let code = source.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        match code.as_deref() {
            // Wrong password; no entry for the user in the server's list.
            Some("28P01" | "28000") => Self::Denied { database, user: user.to_owned(), source },
            Some("3D000") => Self::Missing { database },
            // Starting, stopping, full.
            Some("57P01" | "57P02" | "57P03" | "53300") => Self::Unreachable { database, source },
            Some(_) => Self::Open { database, source },
            None => match source {
                sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => Self::Unreachable { database, source },
                _ => Self::Open { database, source },
            },
        }
    }
}
