//! The client behind trusted proxies, and the forwarding headers for the next hop.
//!
//! `X-Forwarded-For` is preferred to `Forwarded` (RFC 7239) if a trusted peer sends both: proxies
//! that append to the first commonly pass the second on unchanged from the client.

use crate::list::Split;
use ipnet::IpNet;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use weir_config::Listener;
use weir_wire::{Headers, Known, is_token};

/// Maximum length of an accepted host name with port.
const MAX_HOST_BYTES: usize = 262;

/// The client, as far as all hops before it are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address, IPv4-mapped IPv6 as IPv4.
    pub address: IpAddr,
    /// The peer itself is trusted: its forwarding headers were used.
    pub trusted: bool,
    /// The client spoke HTTPS.
    pub https: bool,
    /// The host (with port) that the client requested, by a trusted peer.
    pub host: Option<String>,
}

impl Client {
    /// Walks from the peer towards the client as long as the hops are trusted.
    ///
    /// `peer` is the peer of the connection (or the source by the PROXY protocol), `https` whether
    /// that connection is TLS, `trust` the list of the listener, `accepted` the headers that
    /// trusted peers may set: others are removed. The client is the rightmost address that is not
    /// trusted. An entry that is not an address (`unknown`, `_hidden`, malformed) ends the walk at
    /// the hop that reported it: entries left of it may be forged.
    pub fn identify(
        peer: IpAddr,
        https: bool,
        (trust, accepted): (&[IpNet], &[String]),
        headers: &mut Headers,
    ) -> Self {
        let peer = peer.to_canonical();
        let trusted = is_trusted(peer, trust);
        strip(headers, if trusted { accepted } else { &[] });
        let mut client = Self { address: peer, trusted, https, host: None };
        if !trusted {
            return client;
        }
        if headers.known(Known::XForwardedFor).is_some() {
            client.walk(trust, headers, Known::XForwardedFor);
        } else if headers.known(Known::Forwarded).is_some() {
            client.walk(trust, headers, Known::Forwarded);
            if !is_listed(accepted, Known::XForwardedHost.name().as_bytes()) {
                client.host = None;
            }
        }
        let proto = rightmost_first(headers, Known::XForwardedProto).next();
        client.accept(proto, rightmost_first(headers, Known::XForwardedHost).next());
        client
    }

    /// The client of a recorded request: address and scheme are in the record. The host is used
    /// only if the current `listeners` accept one from trusted peers: recorded headers of this kind
    /// were sent by a trusted peer, which may have passed on those of its client.
    pub fn recorded(
        address: IpAddr,
        https: bool,
        listeners: &[Listener],
        headers: &Headers,
    ) -> Self {
        let mut client = Self { address, trusted: false, https, host: None };
        let trusts = |listener: &&Listener, known: Known| {
            !listener.trust.is_empty()
                && is_listed(&listener.trust_headers, known.name().as_bytes())
        };
        let host = |listener: &&Listener| trusts(listener, Known::XForwardedHost);
        // Listeners that do not trust `X-Forwarded-Host` remove it, but not `Forwarded`.
        let in_line = listeners.iter().any(|listener| host(&listener));
        let mut in_element = listeners.iter().filter(|one| trusts(one, Known::Forwarded));
        if in_line
            && in_element.all(|listener| host(&listener))
            && headers.known(Known::XForwardedFor).is_none()
        {
            // Entries left of the client may be forged.
            for element in rightmost_first(headers, Known::Forwarded) {
                let Some(hop) = parameter(element, "for").and_then(parse_node) else { break };
                client.accept(None, parameter(element, "host"));
                if hop == address {
                    break;
                }
            }
        }
        if in_line {
            client.accept(None, rightmost_first(headers, Known::XForwardedHost).next());
        }
        client
    }

    /// Walks from right to left as long as the hops that report an entry are trusted. An element of
    /// `Forwarded` also has the scheme and the host that the previous hop requested.
    fn walk(&mut self, trust: &[IpNet], headers: &Headers, name: Known) {
        for entry in rightmost_first(headers, name) {
            let is_element = name == Known::Forwarded;
            let node = if is_element { parameter(entry, "for") } else { Some(entry) };
            let Some(address) = node.and_then(parse_node) else { return };
            self.address = address;
            if is_element {
                self.accept(parameter(entry, "proto"), parameter(entry, "host"));
            }
            if !is_trusted(address, trust) {
                return;
            }
        }
    }

    fn accept(&mut self, proto: Option<&[u8]>, host: Option<&[u8]>) {
        match proto {
            Some(proto) if proto.eq_ignore_ascii_case(b"https") => self.https = true,
            Some(proto) if proto.eq_ignore_ascii_case(b"http") => self.https = false,
            _ => {}
        }
        if let Some(host) = host {
            self.trust_host(host);
        }
    }

    fn trust_host(&mut self, value: &[u8]) {
        let plausible = !value.is_empty()
            && value.len() <= MAX_HOST_BYTES
            && value.iter().all(|b| {
                b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']')
            });
        if plausible {
            self.host = std::str::from_utf8(value).ok().map(str::to_ascii_lowercase);
        }
    }
}

/// Removes headers that only a trusted peer may set (`Forwarded`, `X-Forwarded-*`, `weir-*`),
/// except those in `accepted`, in lower case, maybe with `*` at the end.
pub fn strip(headers: &mut Headers, accepted: &[String]) {
    let is_removed =
        |known: Known, name: &[u8]| is_proxy_field(known, name) && !is_listed(accepted, name);
    // Few requests have such headers, and a check is cheaper than a new list.
    if headers.names().any(|(known, name)| is_removed(known, name)) {
        headers.retain(|known, name, _| !is_removed(known, name.as_bytes()));
    }
}

fn is_listed(listed: &[String], name: &[u8]) -> bool {
    listed.iter().any(|listed| match listed.strip_suffix('*') {
        None => name.eq_ignore_ascii_case(listed.as_bytes()),
        Some(start) => {
            name.get(..start.len()).is_some_and(|n| n.eq_ignore_ascii_case(start.as_bytes()))
        }
    })
}

fn is_proxy_field(known: Known, name: &[u8]) -> bool {
    let starts = |prefix: &[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    match known {
        Known::Forwarded
        | Known::XForwardedFor
        | Known::XForwardedHost
        | Known::XForwardedProto
        | Known::WeirTransactionId => true,
        Known::Other => match name.first() {
            Some(b'x' | b'X') => starts(b"x-forwarded-"),
            Some(b'w' | b'W') => starts(b"weir-"),
            _ => false,
        },
        _ => false,
    }
}

/// The hop of a request, for the forwarding headers.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The peer of the connection.
    pub peer: IpAddr,
    /// The `Host` of the request; empty without one.
    pub host: &'a [u8],
    /// Protocol version received, as `Via` names it: `1.0`, `1.1` or `2`.
    pub version: &'a str,
}

/// Sets the forwarding headers: `X-Forwarded-For`, `-Proto`, `-Host`, `Forwarded` and `Via`.
///
/// Extends the lists of a trusted peer; others must have been removed before by [`strip`].
pub fn announce(headers: &mut Headers, hop: &Hop<'_>, client: &Client) {
    let proto = if client.https { "https" } else { "http" };
    let host = client.host.as_ref().map_or(hop.host, |host| host.as_bytes());
    let peer = hop.peer.to_canonical();
    let mut buffer = [0; MAX_ADDRESS_BYTES];
    let address = display(peer, &mut buffer);

    chain(headers, Known::XForwardedFor, |out| out.extend_from_slice(address));
    replace(headers, Known::XForwardedProto, proto.as_bytes());
    if !host.is_empty() {
        replace(headers, Known::XForwardedHost, host);
    }
    chain(headers, Known::Forwarded, |out| {
        // An IPv6 address is written in brackets and quotes (RFC 7239 section 6).
        if peer.is_ipv6() {
            out.extend_from_slice(b"for=\"[");
            out.extend_from_slice(address);
            out.extend_from_slice(b"]\"");
        } else {
            out.extend_from_slice(b"for=");
            out.extend_from_slice(address);
        }
        if !host.is_empty() {
            out.extend_from_slice(b";host=");
            push_value(out, host);
        }
        let proto: &[u8] = if client.https { b";proto=https" } else { b";proto=http" };
        out.extend_from_slice(proto);
    });
    chain(headers, Known::Via, |out| {
        out.extend_from_slice(hop.version.as_bytes());
        out.extend_from_slice(b" weir");
    });
}

/// Replaces the lines of a list header by one line with another element.
fn chain(headers: &mut Headers, name: Known, append: impl FnOnce(&mut Vec<u8>)) {
    if !headers.may_have(name) {
        headers.push_with(name, append);
        return;
    }
    let mut value = Vec::with_capacity(128);
    for line in headers.known_all(name).filter(|line| !line.is_empty()) {
        value.extend_from_slice(line);
        value.extend_from_slice(b", ");
    }
    append(&mut value);
    replace(headers, name, &value);
}

/// Sets a header that is absent from most requests.
fn replace(headers: &mut Headers, name: Known, value: &[u8]) {
    if headers.may_have(name) {
        headers.remove(name.name());
    }
    headers.push_known(name, value);
}

/// Maximum length of an address as text: eight groups of four digits and their colons.
pub const MAX_ADDRESS_BYTES: usize = 39;

/// The text of an address.
pub fn display(address: IpAddr, buffer: &mut [u8; MAX_ADDRESS_BYTES]) -> &[u8] {
    let mut rest = &mut buffer[..];
    // An address without scope or mapping always fits.
    let _ = match address {
        // Most requests: formatting would be the largest cost of this function.
        IpAddr::V4(address) => write_ipv4(address, &mut rest),
        IpAddr::V6(address) => write!(rest, "{address}"),
    };
    let written = MAX_ADDRESS_BYTES - rest.len();
    &buffer[..written]
}

fn write_ipv4(address: Ipv4Addr, out: &mut &mut [u8]) -> std::io::Result<()> {
    for (index, octet) in address.octets().into_iter().enumerate() {
        let (text, length) = OCTETS[usize::from(octet)];
        // All octets but the first start with the dot.
        out.write_all(&text[usize::from(index == 0)..length])?;
    }
    Ok(())
}

/// Each octet of an IPv4 address with a leading dot, and the length of both.
const OCTETS: [([u8; 4], usize); 256] = {
    let mut octets = [(*b".000", 0); 256];
    let mut octet = 0;
    while octet < octets.len() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let skipped = if octet >= 100 {
            0
        } else if octet >= 10 {
            1
        } else {
            2
        };
        let mut at = skipped;
        while at < digits.len() {
            octets[octet].0[1 + at - skipped] = b'0' + digits[at] as u8;
            at += 1;
        }
        octets[octet].1 = 1 + digits.len() - skipped;
        octet += 1;
    }
    octets
};

/// Appends a token unchanged, other values in quotes (RFC 7239 section 4): such as a host with a
/// port, because `:` is not allowed in a token.
fn push_value(out: &mut Vec<u8>, value: &[u8]) {
    if value.iter().all(|&b| is_token(b)) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    if memchr::memchr2(b'"', b'\\', value).is_none() {
        out.extend_from_slice(value);
    } else {
        for &byte in value {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
    out.push(b'"');
}

fn is_trusted(address: IpAddr, trust: &[IpNet]) -> bool {
    trust.iter().any(|net| net.contains(&address))
}

/// Elements of a list header from the last to the first, over all of its lines.
///
/// Parsed from the right, because trusted hops append there: a quote that the client left open then
/// damages its own part only. Only `Forwarded` has quotes.
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

/// Position of the last comma, outside of quotes if `quotes` is set.
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

/// The value of a parameter of a `Forwarded` element, without its quotes. Values with escapes are
/// not decoded: no value that weir uses has any.
fn parameter<'a>(element: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |pair: &'a [u8]| {
        let equals = memchr::memchr(b'=', pair)?;
        pair[..equals].eq_ignore_ascii_case(name.as_bytes()).then(|| &pair[equals + 1..])
    };
    let value = Split::new(element, b';').find_map(value)?;
    let inner = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
    Some(inner.unwrap_or(value))
}

/// An address as written by proxies: bare, with a port, or IPv6 in brackets with or without a port.
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
mod tests;
