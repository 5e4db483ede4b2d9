//! What belongs to one connection and is not passed on to the next.

use http::{HeaderMap, HeaderName, header};

/// Headers between two neighbours, whatever `Connection` says. `Proxy-Authorization` is among them: the
/// door says who asks, and nobody outside needs to know what a program sent here.
const OF_A_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes them, and those that `Connection` names.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // What frames or addresses the message is not for `Connection` to take away.
        .filter(|name| ![header::HOST, header::CONTENT_LENGTH].contains(name))
        .collect();
    for name in named.iter().chain(&OF_A_CONNECTION) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_connection_goes() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own, host"),
            ("x-own", "1"),
            ("host", "example.org"),
            ("proxy-authorization", "Basic c2VjcmV0"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("accept", "*/*"),
        ] {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "host"]);
    }
}
