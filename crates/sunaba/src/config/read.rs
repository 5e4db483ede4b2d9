//! Reads the text of a value; an error completes the sentence "VALUE …".

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::tree::Roles;

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

/// What a process does.
pub(super) fn roles(text: &str) -> Result<Roles, String> {
    let mut roles = Roles { api: false, orchestrator: false };
    for word in listed(text) {
        match one_of(&word, &[("api", Role::Api), ("orchestrator", Role::Orchestrator)]) {
            Ok(Role::Api) => roles.api = true,
            Ok(Role::Orchestrator) => roles.orchestrator = true,
            Err(why) => return Err(format!("holds the role {word:?}, which {why}")),
        }
    }
    if !roles.api && !roles.orchestrator {
        return Err("names no role; write api, orchestrator or both with a comma between".to_owned());
    }
    Ok(roles)
}

#[derive(Clone)]
enum Role {
    Api,
    Orchestrator,
}

/// A container daemon's address.
pub(super) fn docker_host(text: &str) -> Result<String, String> {
    if ["unix://", "tcp://", "http://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    Err("must start with unix:// or tcp://; a daemon behind ssh or TLS is reached by forwarding its socket: ssh \
         -nNT -L /run/far.sock:/var/run/docker.sock HOST, then unix:///run/far.sock with docker.remote true"
        .to_owned())
}

/// The name of a daemon's network that a sandbox may be attached to.
pub(super) fn docker_network(text: &str) -> Result<String, String> {
    let refused = match text {
        "none" => Some("has no way to the server; name a network that leads to public_url"),
        "host" => Some("would give a sandbox all of that machine's network; name a network of its own"),
        _ if text.starts_with("container:") => Some("is another container's network; name one of its own"),
        _ => None,
    };
    let named = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    match refused {
        Some(why) => Err(why.to_owned()),
        None if named => Ok(text.to_owned()),
        None => Err("is not the name of a network; `docker network ls` lists them".to_owned()),
    }
}

/// What a file of certificates holds; it is handed on in an environment variable, which has a bound.
pub(super) fn certificates(text: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 64 * 1024;
    let held =
        std::fs::read_to_string(directory(text)?).map_err(|error| format!("cannot be read: {error}"))?;
    if held.len() > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes; name the one authority that is needed"));
    }
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(held.as_bytes()).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(held),
        _ => Err("holds no certificate in PEM (-----BEGIN CERTIFICATE-----)".to_owned()),
    }
}
