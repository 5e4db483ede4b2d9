//! Addresses of databases and of Redis, which may hold a password: reading them, and showing them without it.

use secrecy::SecretString;

use super::read::directory;
use super::tree::Database;

/// What stands in the place of a password.
const HIDDEN: &str = "***";

/// Where rows are kept.
pub(crate) fn database(text: &str) -> Result<Database, String> {
    if is_postgres(text) {
        return postgres(text);
    }
    let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() && !path.starts_with(":memory:") => {
            directory(path).map(Database::File)
        }
        _ => Err("is not a database address; write postgres://user:password@host/database, or \
                  sqlite:/path/to/file.db"
            .to_owned()),
    }
}

fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

fn postgres(text: &str) -> Result<Database, String> {
    let url = reqwest::Url::parse(text)
        .map_err(|_| "is not an address; write postgres://user:password@host/database".to_owned())?;
    // A database without a name would be the user's own one, which is hardly ever meant.
    if url.path().trim_matches('/').is_empty() && !url.query_pairs().any(|(name, _)| name == "dbname") {
        return Err("names no database; write postgres://user:password@host/database".to_owned());
    }
    Ok(Database::Postgres(SecretString::from(text)))
}

/// Where Redis is.
pub(super) fn redis(text: &str) -> Result<SecretString, String> {
    let wrong = || "is not an address of Redis; write redis://host:6379 or rediss://host:6379".to_owned();
    let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "redis" | "rediss") || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    Ok(SecretString::from(text))
}

/// The address as it may be shown. Works on what cannot be read as well, because that is shown in the error;
/// where it is unclear what the password is, more is hidden.
pub(crate) fn without_password(text: &str) -> String {
    if text.starts_with("sqlite:") {
        return text.to_owned();
    }
    without_parameter(&without_user_s_password(text))
}

/// Whether something of it is hidden.
pub(super) fn has_password(text: &str) -> bool {
    without_password(text) != text
}

/// `scheme://user:***@rest`. A password with a `/` or `@` that should have been escaped ends at the last `@`.
fn without_user_s_password(text: &str) -> String {
    let Some((before, rest)) = text.rsplit_once('@') else { return text.to_owned() };
    let (scheme, who) = before.split_once("://").unwrap_or(("", before));
    match who.split_once(':') {
        Some((user, _)) if !scheme.is_empty() => format!("{scheme}://{user}:{HIDDEN}@{rest}"),
        Some(_) => format!("{HIDDEN}@{rest}"),
        None => text.to_owned(),
    }
}

/// `…password=***`, which PostgreSQL and Redis take as well.
fn without_parameter(text: &str) -> String {
    const NAME: &str = "password=";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.to_ascii_lowercase().find(NAME) {
        let (kept, secret) = rest.split_at(at + NAME.len());
        shown.push_str(kept);
        shown.push_str(HIDDEN);
        rest = &secret[secret.find(['&', ' ']).unwrap_or(secret.len())..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_wherever_it_stands() {
        for (written, shown) in [
            ("postgres://me:geheim@h/d", "postgres://me:***@h/d"),
            ("postgres://me:ge/he@im@h/d", "postgres://me:***@h/d"),
            (
                "postgres://h/d?user=me&password=geheim&sslmode=require",
                "postgres://h/d?user=me&password=***&sslmode=require",
            ),
            ("redis://:geheim@h:6379/1", "redis://:***@h:6379/1"),
            ("host=h Password=geheim user=me", "host=h Password=*** user=me"),
            ("me:geheim@h/d", "***@h/d"),
            ("postgres://me@h/d", "postgres://me@h/d"),
            ("sqlite:/a/b:c@d.db", "sqlite:/a/b:c@d.db"),
        ] {
            assert_eq!(without_password(written), shown);
            assert_eq!(has_password(written), written.contains("ge"), "{written}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "postgres://",
            "postgres://h",
            "postgres://h/",
            "mysql://h/d",
            "sqlite:",
            "sqlite::memory:",
            "h/d",
        ] {
            assert!(database(text).is_err(), "{text}");
        }
        for text in ["postgres://h/d", "postgresql://me:x@h:1/d?sslmode=require", "postgres:///d?host=/run"] {
            assert!(matches!(database(text), Ok(Database::Postgres(_))), "{text}");
        }
        for text in ["http://h", "redis://", "redis", "rediss:h"] {
            assert!(redis(text).is_err(), "{text}");
        }
        for text in ["redis://h", "rediss://:x@h:6380/2"] {
            assert!(redis(text).is_ok(), "{text}");
        }
    }
}
