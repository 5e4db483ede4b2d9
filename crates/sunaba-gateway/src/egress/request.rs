//! What a request to the proxy asks for.

use http::uri::Authority;
use http::{Method, Request, header};
use sunaba_engine::egress::{BadHost, Host};

/// A host and port that a request is for.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The host, or why it is none: that is a refusal like another, and is written down.
    pub(super) host: Result<Host, BadHost>,
    /// As the client wrote it, for words.
    pub(super) said: String,
    pub(super) port: u16,
}

impl Target {
    /// Reads `CONNECT host:port` or an absolute `http` URL; anything else is an error in words.
    pub(super) fn of<B>(request: &Request<B>) -> Result<Self, &'static str> {
        unambiguous(request)?;
        let uri = request.uri();
        if request.method() == Method::CONNECT {
            let authority = uri.authority().ok_or("CONNECT needs host:port")?;
            let port = authority.port_u16().ok_or("CONNECT needs a port from 1 to 65535: host:port")?;
            return Self::at(authority, port);
        }
        match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(authority)) => {
                let port = match authority.port() {
                    Some(port) => port.as_str().parse().map_err(|_| "the port is none")?,
                    None => 80,
                };
                Self::at(authority, port)
            }
            (Some("https"), _) => Err("for https send CONNECT host:port and speak TLS yourself"),
            (Some(_), _) => Err("only http URLs are forwarded; send CONNECT host:port for anything else"),
            (None, _) => Err("this is an HTTP proxy: send CONNECT host:port, or a whole http:// URL"),
        }
    }

    fn at(authority: &Authority, port: u16) -> Result<Self, &'static str> {
        if authority.as_str().contains('@') {
            return Err("leave user and password out of the address");
        }
        if port == 0 {
            return Err("a port is a number from 1 to 65535");
        }
        let said: String = authority.host().chars().filter(|c| c.is_ascii_graphic()).take(260).collect();
        Ok(Self { host: Host::parse(authority.host()), said, port })
    }

    /// The host in its one spelling, or as it was written.
    pub(super) fn name(&self) -> String {
        self.host.as_ref().map_or_else(|_| self.said.clone(), ToString::to_string)
    }
}

/// Refuses what two programs could read in two ways. (Of a length beside chunks nothing is left here: chunks win.)
fn unambiguous<B>(request: &Request<B>) -> Result<(), &'static str> {
    let headers = request.headers();
    let count = |name| headers.get_all(name).iter().count();
    if count(header::HOST) > 1 {
        return Err("a request has one Host header");
    }
    if count(header::CONTENT_LENGTH) > 1 {
        return Err("a request has one Content-Length header");
    }
    Ok(())
}
