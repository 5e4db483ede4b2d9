//! How the store's sessions are set, beside what the server and the address say.

/// The name of a setting and its value.
type Setting = (&'static str, &'static str);

/// Whatever is joined is found by key, few rows at a time. Nothing is read as a whole, also not once for many looks.
const BOUNDED: [Setting; 6] = [
    ("statement_timeout", "2000"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("jit", "off"),
];

/// A session that reads.
pub fn reading() -> impl Iterator<Item = Setting> {
    BOUNDED.into_iter().chain([("default_transaction_read_only", "on")])
}

/// A session that writes. Every statement of the writer finds its rows by key. Its plans are made once and must not
/// depend on how large a table was at that moment.
pub fn writing() -> impl Iterator<Item = Setting> {
    BOUNDED.into_iter().chain([
        ("lock_timeout", "1500"),
        // Whoever waited for a lock has to see what is there now.
        ("default_transaction_isolation", "read committed"),
        ("idle_in_transaction_session_timeout", "10000"),
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_sort", "off"),
    ])
}
