//! Reads the text of a value; an error completes the sentence "VALUE …".

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::tree::Database;

/// Puts a value that could be read into its place.
pub(super) fn set<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

/// An address with a port.
pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    let with_host = if let Some(port) = text.strip_prefix(':') {
        format!("127.0.0.1:{port}")
    } else {
        text.replacen("localhost:", "127.0.0.1:", 1)
    };
    with_host.parse().map_err(|_| "is not an address with a port; write 127.0.0.1:18000".to_owned())
}

/// A path, made absolute.
pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.trim().is_empty() {
        return Err("is empty; write a path".to_owned());
    }
    std::path::absolute(Path::new(text)).map_err(|error| format!("is not a path: {error}"))
}

/// An HTTP address without a credential.
pub(super) fn web_address(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|_| "is not an address; write https://host".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must start with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Where rows are kept.
pub(super) fn database(text: &str) -> Result<Database, String> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Err("names PostgreSQL, which this version cannot use yet; leave it out for SQLite".to_owned());
    }
    let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() && !path.starts_with(":memory:") => {
            directory(path).map(Database::File)
        }
        _ => Err("is not a database address; write sqlite:/path/to/file.db".to_owned()),
    }
}

/// One of several words.
pub(super) fn one_of<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(value.clone());
    }
    let names = choices.iter().map(|(name, _)| *name);
    let listed = names.clone().collect::<Vec<_>>().join(" or ");
    match super::suggest::nearest(text, names) {
        Some(known) => Err(format!("must be {listed}; did you mean {known:?}?")),
        None => Err(format!("must be {listed}")),
    }
}

/// Yes or no.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A number within bounds.
pub(super) fn amount(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("must be a number from {least} to {most}"))
}

/// A whole number within bounds.
pub(super) fn whole(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number: Option<u32> = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

/// Any text but none.
pub(super) fn not_blank(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// What is logged.
pub(super) fn directives(text: &str) -> Result<String, String> {
    const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace", "off"];
    for word in text.split(',').map(str::trim) {
        // A word alone would be taken for a part of the program that does not exist.
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
        if !is_level && !word.contains(['=', '[']) {
            let meant = super::suggest::nearest(word, LEVELS.iter().copied());
            let meant = meant.map(|level| format!("; did you mean {level:?}?")).unwrap_or_default();
            return Err(format!("is not a log level; it must be {}{meant}", LEVELS.join(", ")));
        }
    }
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("is not a log level: {error}"))
}

/// A list of words with commas between them.
pub(super) fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A container daemon's address.
pub(super) fn docker_host(text: &str) -> Result<String, String> {
    let known = ["unix://", "tcp://", "http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if known {
        Ok(text.to_owned())
    } else {
        Err("must start with unix://, tcp://, http:// or https://".to_owned())
    }
}
