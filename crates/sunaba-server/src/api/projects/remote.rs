//! Which repositories elsewhere the server fetches for whom.
//!
//! The server's git runs on the server's network and with its keys. An administrator may send it anywhere; others
//! only to where anybody could go: `https://` on the public internet. Its name is looked up here, once; an
//! address that changes afterwards is not noticed.

use std::net::IpAddr;
use std::time::Duration;

use sunaba_engine::egress::{Host, refused_address};

use crate::ApiError;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
const HTTPS: u16 = 443;

/// Whether somebody who is no administrator may have this repository fetched.
pub(super) async fn may_fetch(url: &str) -> Result<(), ApiError> {
    let admin_only = |why: &str| {
        let words = format!("{why}; only an admin token may make a project of such a repository");
        ApiError::forbidden("repo_url_admin_only", words)
    };
    let rest = url.strip_prefix("https://").ok_or_else(|| admin_only("the URL is not https://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = without_port(authority);
    let host = Host::parse(host).map_err(|why| ApiError::field("repo_url", why.to_string()))?;
    let addresses: Vec<IpAddr> = match &host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let looked_up =
                tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((&**name, HTTPS))).await;
            let found = looked_up.ok().and_then(Result::ok).map(|found| found.map(|at| at.ip()).collect());
            found.ok_or_else(|| ApiError::field("repo_url", "its host is not known here"))?
        }
    };
    match addresses.iter().find_map(|address| refused_address(*address)) {
        Some(kind) => Err(admin_only(&format!("its host has a {kind} address"))),
        None => Ok(()),
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
}
