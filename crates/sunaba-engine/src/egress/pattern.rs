//! One entry of a policy's list: which hosts, on which ports.

use std::fmt;

use super::host::{BadHost, Host};

/// The ports of a pattern that names none.
pub(super) const USUAL_PORTS: [u16; 2] = [80, 443];

/// Which hosts a pattern means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Hosts {
    /// Every host.
    Any,
    /// Every name below this one, not itself.
    Below(String),
    /// This one.
    One(Host),
}

/// `example.org`, `*.example.org`, an address, each with `:port` or without (then 80 and 443).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub(super) hosts: Hosts,
    /// None means the usual ones.
    pub(super) port: Option<u16>,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// It looks like a URL.
    #[error("write a host only, without scheme, user, path or spaces: example.org or example.org:8080")]
    NotAHost,
    /// A star somewhere else than as the first label.
    #[error("a star stands only for the first part of a name: *.example.org")]
    Star,
    /// A port that is none.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// The host is wrong.
    #[error(transparent)]
    Host(#[from] BadHost),
}

impl Pattern {
    /// Every host on the usual ports.
    pub(super) const EVERYTHING: Self = Self { hosts: Hosts::Any, port: None };

    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '?' | '#' | '\\');
        if text.contains(odd) {
            return Err(BadPattern::NotAHost);
        }
        let (host, port) = split_port(text)?;
        let hosts = match host.strip_prefix("*.") {
            Some(rest) if !rest.contains('*') => match Host::parse(rest)? {
                Host::Name(name) => Hosts::Below(name),
                Host::Address(_) => return Err(BadPattern::Star),
            },
            None if !host.contains('*') => Hosts::One(Host::parse(host)?),
            Some(_) | None => return Err(BadPattern::Star),
        };
        Ok(Self { hosts, port })
    }

    /// Whether it means this host, whatever the port.
    pub(super) fn names(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::Any, _) => true,
            (Hosts::One(own), host) => own == host,
            (Hosts::Below(parent), Host::Name(name)) => is_below(name, parent),
            (Hosts::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether it opens this port.
    pub(super) fn opens(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => USUAL_PORTS.contains(&port),
        }
    }

    /// What both mean; none when that is nothing.
    pub(super) fn both(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (None, None) => None,
            (Some(port), _) if other.opens(port) => Some(port),
            (_, Some(port)) if self.opens(port) => Some(port),
            _ => return None,
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (Hosts::Any, hosts) | (hosts, Hosts::Any) => hosts,
            (Hosts::One(host), _) if other.names(host) => &self.hosts,
            (_, Hosts::One(host)) if self.names(host) => &other.hosts,
            (Hosts::Below(one), Hosts::Below(two)) if one == two || is_below(one, two) => &self.hosts,
            (Hosts::Below(one), Hosts::Below(two)) if is_below(two, one) => &other.hosts,
            _ => return None,
        };
        Some(Self { hosts: hosts.clone(), port })
    }

    /// Whether it means everything that the other does.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.both(other).as_ref() == Some(other)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*"),
            Hosts::Below(parent) => write!(f, "*.{parent}"),
            Hosts::One(host) => write!(f, "{host}"),
        }?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Splits `host:port`; IPv6 has a port only behind brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), BadPattern> {
    let (host, port) = match (text.rfind(']'), text.rfind(':')) {
        (Some(bracket), Some(colon)) if colon > bracket => (&text[..colon], Some(&text[colon + 1..])),
        (None, Some(colon)) if text.matches(':').count() == 1 => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number @ 1..) if digits => Ok((host, Some(number))),
        _ => Err(BadPattern::Port),
    }
}
