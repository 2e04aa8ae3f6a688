//! Host check: protection against DNS rebinding.
//!
//! A page in a browser can let its own host name resolve to a loopback address and read responses
//! from there, because the browser considers it the same origin. Such a request has the page's host
//! name. Therefore requests for any host other than this machine are rejected.

use std::net::{IpAddr, Ipv6Addr};

/// Addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// The local one, for the host check.
    pub(crate) local: IpAddr,
    /// That of the client.
    pub(crate) peer: IpAddr,
}

/// Checks a Host header or the authority of a target: `host` or `host:port`.
pub(crate) fn is_allowed(authority: &str, local: IpAddr, configured: &[String]) -> bool {
    let host = without_port(authority);
    let literal = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = literal.parse::<IpAddr>() {
        let address = address.to_canonical();
        // That of a proxy or of a translated network is configured.
        let is_named = |name: &String| name.parse::<IpAddr>().is_ok_and(|one| one == address);
        return address == local.to_canonical()
            || address.is_loopback()
            || configured.iter().any(is_named);
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || configured.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The last colon of an IPv6 address in brackets is inside the brackets.
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.ends_with(':') => {
            host
        }
        _ => authority,
    }
}

/// The local address of a connection that does not report one.
pub(crate) const NOWHERE: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn allowed(authority: &str) -> bool {
        is_allowed(authority, LOCAL, &["ops.example.com".to_owned(), "192.0.2.9".to_owned()])
    }

    #[test]
    fn this_machine_and_configured_names_are_allowed() {
        for authority in [
            "localhost",
            "LOCALHOST:9080",
            "a.localhost",
            "localhost.",
            "127.0.0.1",
            "127.1.2.3:9080",
            "[::1]",
            "[::1]:9080",
            "10.0.0.7:9080",
            "[::ffff:10.0.0.7]",
            "ops.example.com:443",
            "192.0.2.9:9080",
        ] {
            assert!(allowed(authority), "{authority}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for authority in [
            "",
            "example.com",
            "localhost.example.com",
            "notlocalhost",
            "10.0.0.8",
            "x.ops.example.com",
            "127.0.0.1.example.com",
            "[::1",
            "0.0.0.0",
        ] {
            assert!(!allowed(authority), "{authority}");
        }
    }
}
