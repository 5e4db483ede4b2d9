//! The embedded store: all SQLite SQL, one writer, many readers
