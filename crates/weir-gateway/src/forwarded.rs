//! Who the client is, behind proxies that are trusted, and what the next hop is told about it.
//!
//! `X-Forwarded-For` is preferred to `Forwarded` (RFC 7239) where a trusted peer sends both: proxies
//! that append to the first commonly pass the second on as the client wrote it.

use ipnet::IpNet;
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weir_wire::{Headers, Known};

/// Longest host name with port that is believed.
const LONGEST_HOST: usize = 262;

/// The client as far as the chain of trust reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address, IPv4-mapped IPv6 as IPv4.
    pub address: IpAddr,
    /// The peer itself is trusted: what it says of the client was believed.
    pub trusted: bool,
    /// The client spoke HTTPS.
    pub https: bool,
    /// The host (with port) the client asked for, where a trusted peer says so.
    pub host: Option<String>,
}

impl Client {
    /// Walks from the peer towards the client as long as the hops are trusted.
    ///
    /// `peer` is the connection's other end (or the source named by the PROXY protocol), `https`
    /// whether that connection is TLS, `trust` the listener's list. The client is the rightmost
    /// address that is not trusted. An entry that is no address (`unknown`, `_hidden`, garbage)
    /// ends the walk at the hop that reported it: what stands left of it could be anybody's words.
    pub fn identify(peer: IpAddr, https: bool, trust: &[IpNet], headers: &Headers) -> Self {
        let peer = peer.to_canonical();
        let trusted = is_trusted(peer, trust);
        let mut client = Self { address: peer, trusted, https, host: None };
        if !trusted {
            return client;
        }
        if headers.known(Known::XForwardedFor).is_some() {
            client.walk(trust, rightmost_first(headers, Known::XForwardedFor), parse_node);
        } else if headers.known(Known::Forwarded).is_some() {
            client.walk_forwarded(trust, headers);
        }
        if let Some(proto) = rightmost_first(headers, Known::XForwardedProto).next() {
            client.believe_proto(proto);
        }
        if let Some(host) = rightmost_first(headers, Known::XForwardedHost).next() {
            client.believe_host(host);
        }
        client
    }

    fn walk<'h>(
        &mut self,
        trust: &[IpNet],
        entries: impl Iterator<Item = &'h [u8]>,
        node: impl Fn(&'h [u8]) -> Option<IpAddr>,
    ) {
        for entry in entries {
            let Some(address) = node(entry) else { return };
            self.address = address;
            if !is_trusted(address, trust) {
                return;
            }
        }
    }

    fn walk_forwarded(&mut self, trust: &[IpNet], headers: &Headers) {
        for element in rightmost_first(headers, Known::Forwarded) {
            let Some(address) = parameter(element, "for").and_then(parse_node) else { return };
            self.address = address;
            // Said by a trusted hop about this one: the further, the nearer to the client.
            if let Some(proto) = parameter(element, "proto") {
                self.believe_proto(proto);
            }
            if let Some(host) = parameter(element, "host") {
                self.believe_host(host);
            }
            if !is_trusted(address, trust) {
                return;
            }
        }
    }

    fn believe_proto(&mut self, value: &[u8]) {
        if value.eq_ignore_ascii_case(b"https") {
            self.https = true;
        } else if value.eq_ignore_ascii_case(b"http") {
            self.https = false;
        }
    }

    fn believe_host(&mut self, value: &[u8]) {
        let plausible = !value.is_empty()
            && value.len() <= LONGEST_HOST
            && value.iter().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']')
            });
        if plausible {
            self.host = std::str::from_utf8(value).ok().map(str::to_ascii_lowercase);
        }
    }
}

/// Removes what only a trusted peer may say: `Forwarded`, `X-Forwarded-*`, `weir-*`.
pub fn strip(headers: &mut Headers) {
    // Most requests carry none of them, and looking is cheaper than rebuilding the list.
    if headers.iter().any(|(known, name, _)| is_said_by_proxies(known, name)) {
        headers.retain(|known, name, _| !is_said_by_proxies(known, name));
    }
}

fn is_said_by_proxies(known: Known, name: &str) -> bool {
    let starts = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    match known {
        Known::Forwarded
        | Known::XForwardedFor
        | Known::XForwardedHost
        | Known::XForwardedProto => true,
        Known::Other => starts("x-forwarded-") || starts("weir-"),
        _ => false,
    }
}

/// The hop a request arrived by, as the next one is told about it.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The connection's other end.
    pub peer: IpAddr,
    /// The Host the request came with; empty when there was none.
    pub host: &'a [u8],
    /// Protocol version received, as `Via` names it: `1.0`, `1.1` or `2`.
    pub version: &'a str,
}

/// Tells the upstream about the way so far: `X-Forwarded-For`, `-Proto`, `-Host`, `Forwarded` and
/// `Via`.
///
/// Chains that a trusted peer sent are appended to; others must have been [`strip`]ped before and
/// start anew. `scratch` is a buffer to reuse, left with no meaning.
pub fn announce(headers: &mut Headers, hop: &Hop<'_>, client: &Client, scratch: &mut Vec<u8>) {
    let peer = hop.peer.to_canonical();
    let proto = if client.https { "https" } else { "http" };
    let host = client.host.as_ref().map_or(hop.host, |host| host.as_bytes());

    chain(headers, Known::XForwardedFor, scratch, |out| push_display(out, peer));
    headers.set("x-forwarded-proto", proto.as_bytes());
    if !host.is_empty() {
        headers.set("x-forwarded-host", host);
    }
    chain(headers, Known::Forwarded, scratch, |out| push_forwarded(out, peer, host, proto));
    chain(headers, Known::Via, scratch, |out| {
        out.extend_from_slice(hop.version.as_bytes());
        out.extend_from_slice(b" weir");
    });
}

/// Replaces the lines of a list header by one with an element more.
fn chain(
    headers: &mut Headers,
    name: Known,
    scratch: &mut Vec<u8>,
    append: impl FnOnce(&mut Vec<u8>),
) {
    scratch.clear();
    for value in headers.known_all(name).filter(|value| !value.is_empty()) {
        scratch.extend_from_slice(value);
        scratch.extend_from_slice(b", ");
    }
    append(scratch);
    headers.set(name.name(), scratch);
}

fn push_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

/// One element of RFC 7239 section 4: an IPv6 address stands in brackets and quotes, and so does a
/// host with a port, because neither `[` nor `:` may be in a token.
fn push_forwarded(out: &mut Vec<u8>, peer: IpAddr, host: &[u8], proto: &str) {
    match peer {
        IpAddr::V4(address) => push_display(out, format_args!("for={address}")),
        IpAddr::V6(address) => push_display(out, format_args!("for=\"[{address}]\"")),
    }
    if !host.is_empty() {
        out.extend_from_slice(b";host=");
        if host.iter().all(|&b| is_token(b)) {
            out.extend_from_slice(host);
        } else {
            out.push(b'"');
            for &byte in host {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(proto.as_bytes());
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_trusted(address: IpAddr, trust: &[IpNet]) -> bool {
    trust.iter().any(|net| net.contains(&address))
}

/// Elements of a list header from the last to the first, over all of its lines.
///
/// Read from the right, because that is the side trusted hops write to: a quote the client left
/// open then garbles its own words only. Only `Forwarded` knows quotes.
fn rightmost_first(headers: &Headers, name: Known) -> impl Iterator<Item = &[u8]> {
    let lines: Vec<&[u8]> = headers.known_all(name).collect();
    lines.into_iter().rev().flat_map(move |line| {
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let text = rest?;
            let comma = last_comma(text, name == Known::Forwarded);
            rest = comma.map(|at| &text[..at]);
            Some(text[comma.map_or(0, |at| at + 1)..].trim_ascii())
        })
    })
}

/// Where the last comma is, outside of quotes if there are any.
fn last_comma(text: &[u8], quotes: bool) -> Option<usize> {
    if !quotes {
        return memchr::memrchr(b',', text);
    }
    let mut quoted = false;
    (0..text.len()).rev().find(|&at| {
        match text[at] {
            b'"' => {
                let escapes = text[..at].iter().rev().take_while(|&&b| b == b'\\').count();
                quoted ^= escapes % 2 == 0;
            }
            b',' => return !quoted,
            _ => {}
        }
        false
    })
}

/// Where `separator` stands outside of quotes.
fn unquoted(text: &[u8], separator: u8) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    text.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => return byte == separator && !quoted,
        }
        false
    })
}

/// The value of a parameter of a `Forwarded` element, without its quotes. Values with escapes are
/// left alone: nothing weir believes has any.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = element;
    loop {
        let end = unquoted(rest, b';').unwrap_or(rest.len());
        let pair = rest[..end].trim_ascii();
        if let Some(equals) = memchr::memchr(b'=', pair)
            && pair[..equals].eq_ignore_ascii_case(name.as_bytes())
        {
            let value = &pair[equals + 1..];
            let inner = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
            return Some(inner.unwrap_or(value));
        }
        rest = rest.get(end + 1..)?;
    }
}

/// An address as proxies write it: bare, with a port, or IPv6 in brackets with or without one.
fn parse_node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let address = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .or_else(|| bracketed().map(IpAddr::V6))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.push(name, value.as_bytes());
        }
        headers
    }

    fn trust() -> Vec<IpNet> {
        ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().expect("a net")).collect()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn client(peer: &str, fields: &[(&str, &str)]) -> Client {
        Client::identify(ip(peer), false, &trust(), &headers(fields))
    }

    #[test]
    fn an_untrusted_peer_is_the_client_whatever_it_says() {
        let seen = client(
            "192.0.2.1",
            &[
                ("x-forwarded-for", "1.1.1.1"),
                ("forwarded", "for=1.1.1.1"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "evil"),
            ],
        );
        assert_eq!(
            seen,
            Client { address: ip("192.0.2.1"), trusted: false, https: false, host: None }
        );
    }

    #[test]
    fn the_client_is_the_rightmost_untrusted_entry() {
        for (value, address) in [
            ("1.1.1.1", "1.1.1.1"),
            ("6.6.6.6, 1.1.1.1", "1.1.1.1"),
            ("6.6.6.6, 1.1.1.1, 10.0.0.9,10.1.1.1", "1.1.1.1"),
            ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("1.1.1.1:1234, 10.0.0.2:80", "1.1.1.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1, fd00::1", "2001:db8::1"),
            ("::ffff:1.1.1.1, ::ffff:10.0.0.1", "1.1.1.1"),
        ] {
            assert_eq!(
                client("10.0.0.1", &[("X-Forwarded-For", value)]).address,
                ip(address),
                "{value}"
            );
        }
        let lines = [("x-forwarded-for", "6.6.6.6, 1.1.1.1"), ("x-forwarded-for", "10.0.0.2")];
        assert_eq!(client("10.0.0.1", &lines).address, ip("1.1.1.1"));
        assert_eq!(client("::ffff:10.0.0.1", &lines).address, ip("1.1.1.1"));
    }

    #[test]
    fn an_entry_that_is_no_address_ends_the_walk_at_who_reported_it() {
        for value in
            ["1.1.1.1, unknown", "1.1.1.1, _x", "1.1.1.1,", "1.1.1.1, 10.0.0.300", "\"", ""]
        {
            assert_eq!(
                client("10.0.0.1", &[("x-forwarded-for", value)]).address,
                ip("10.0.0.1"),
                "{value}"
            );
        }
        let hidden = client("10.0.0.1", &[("x-forwarded-for", "1.1.1.1, junk, 10.0.0.2")]);
        assert_eq!(hidden.address, ip("10.0.0.2"));
        let hidden = client("10.0.0.1", &[("forwarded", "for=1.1.1.1, for=_hidden, for=10.0.0.2")]);
        assert_eq!(hidden.address, ip("10.0.0.2"));
    }

    #[test]
    fn forwarded_is_read_with_its_quoting() {
        let seen = client(
            "10.0.0.1",
            &[(
                "Forwarded",
                "for=6.6.6.6, For=\"[2001:db8:cafe::17]:4711\";Proto=https;host=\"a.example:8443\", for=10.0.0.2;proto=http;by=\"x,y;for=9.9.9.9\"",
            )],
        );
        assert_eq!(seen.address, ip("2001:db8:cafe::17"));
        assert!(seen.https);
        assert_eq!(seen.host.as_deref(), Some("a.example:8443"));
    }

    #[test]
    fn x_forwarded_for_comes_before_forwarded() {
        let both = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "1.1.1.1")];
        assert_eq!(client("10.0.0.1", &both).address, ip("1.1.1.1"));
    }

    #[test]
    fn scheme_and_host_of_the_nearest_trusted_hop_are_believed_if_plausible() {
        let seen = client(
            "10.0.0.1",
            &[("x-forwarded-proto", "http, HTTPS"), ("x-forwarded-host", "x, Shop.example")],
        );
        assert!(seen.https);
        assert_eq!(seen.host.as_deref(), Some("shop.example"));
        let seen =
            client("10.0.0.1", &[("x-forwarded-proto", "gopher"), ("x-forwarded-host", "a b/<")]);
        assert!(!seen.https);
        assert_eq!(seen.host, None);
    }

    #[test]
    fn strip_removes_what_proxies_say_and_nothing_else() {
        let mut headers = headers(&[
            ("Forwarded", "for=x"),
            ("X-Forwarded-For", "1"),
            ("x-forwarded-PORT", "1"),
            ("X-Forwarded-Proto", "1"),
            ("x-forwarded-host", "1"),
            ("Weir-Anything", "1"),
            ("x-forwarded", "stays"),
            ("weird", "stays"),
            ("via", "1.1 x"),
            ("host", "h"),
        ]);
        strip(&mut headers);
        let left: Vec<_> = headers.iter().map(|(_, name, _)| name.to_owned()).collect();
        assert_eq!(left, ["x-forwarded", "weird", "via", "host"]);
    }

    fn announced(peer: &str, host: &str, fields: &[(&str, &str)]) -> Headers {
        let mut headers = headers(fields);
        let client = Client::identify(ip(peer), true, &trust(), &headers);
        if !client.trusted {
            strip(&mut headers);
        }
        let hop = Hop { peer: ip(peer), host: host.as_bytes(), version: "1.1" };
        announce(&mut headers, &hop, &client, &mut b"left over".to_vec());
        headers
    }

    fn value<'h>(headers: &'h Headers, name: &'h str) -> &'h str {
        assert_eq!(headers.get_all(name).count(), 1, "{name}");
        headers.get(name).and_then(|v| std::str::from_utf8(v).ok()).unwrap_or_default()
    }

    #[test]
    fn an_untrusted_peer_starts_new_chains() {
        let headers = announced(
            "2001:db8::1",
            "shop.example:8443",
            &[("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6"), ("via", "1.0 fred")],
        );
        assert_eq!(value(&headers, "x-forwarded-for"), "2001:db8::1");
        assert_eq!(value(&headers, "x-forwarded-proto"), "https");
        assert_eq!(value(&headers, "x-forwarded-host"), "shop.example:8443");
        assert_eq!(
            value(&headers, "forwarded"),
            "for=\"[2001:db8::1]\";host=\"shop.example:8443\";proto=https"
        );
        assert_eq!(value(&headers, "via"), "1.0 fred, 1.1 weir");
    }

    #[test]
    fn a_trusted_peer_s_chains_go_on() {
        let headers = announced(
            "10.0.0.1",
            "inner",
            &[
                ("x-forwarded-for", "1.1.1.1"),
                ("x-forwarded-for", "10.0.0.2"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-host", "shop.example"),
            ],
        );
        assert_eq!(value(&headers, "x-forwarded-for"), "1.1.1.1, 10.0.0.2, 10.0.0.1");
        assert_eq!(value(&headers, "x-forwarded-proto"), "http");
        assert_eq!(value(&headers, "x-forwarded-host"), "shop.example");
        assert_eq!(value(&headers, "forwarded"), "for=10.0.0.1;host=shop.example;proto=http");
    }

    #[test]
    fn a_host_cannot_break_out_of_its_quotes() {
        let headers = announced("192.0.2.1", "a\";for=1.1.1.1;x=\"", &[]);
        assert_eq!(
            value(&headers, "forwarded"),
            "for=192.0.2.1;host=\"a\\\";for=1.1.1.1;x=\\\"\";proto=https"
        );
        assert_eq!(headers.get("via"), Some(&b"1.1 weir"[..]));
        assert_eq!(announced("192.0.2.1", "", &[]).get("x-forwarded-host"), None);
    }

    proptest! {
        #[test]
        fn hostile_chains_never_reach_past_an_untrusted_hop(
            garbage in "[ -~]{0,60}", which in prop::sample::select(vec!["x-forwarded-for", "forwarded"])
        ) {
            let real = if which == "forwarded" { "for=192.0.2.9" } else { "192.0.2.9" };
            // Not even a quote left open may swallow what the trusted hop appended.
            let seen = client("10.0.0.1", &[(which, &format!("{garbage}, {real}"))]);
            prop_assert_eq!(seen.address, ip("192.0.2.9"));
        }

        #[test]
        fn what_weir_announces_it_reads_back(bits: [u16; 8], v6: bool, host in "[a-z]{1,9}(:[0-9]{1,4})?") {
            let address = if v6 { IpAddr::from(bits) } else { IpAddr::from([1, 2, bits[0] as u8, bits[1] as u8]) };
            let mut told = Headers::new();
            let client = Client::identify(address, true, &[], &told);
            announce(&mut told, &Hop { peer: address, host: host.as_bytes(), version: "2" }, &client, &mut Vec::new());
            for without in ["forwarded", "x-forwarded-for"] {
                let mut told = told.clone();
                told.remove(without);
                let seen = Client::identify(ip("10.0.0.1"), false, &trust(), &told);
                prop_assert_eq!(seen.address, address.to_canonical());
                prop_assert!(seen.https);
                prop_assert_eq!(seen.host.as_deref(), Some(&host[..]));
            }
        }
    }
}
