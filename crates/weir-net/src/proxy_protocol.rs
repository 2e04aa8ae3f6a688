//! PROXY protocol, versions 1 and 2, without I/O
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! The header decides about the address of the client, so parsing is strict: single spaces,
//! canonical numbers, exact lengths, well-formed TLVs. Anything else closes the connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest version 1 line, CRLF included (section 2.1).
pub const MAX_V1_BYTES: usize = 107;

/// Longest version 2 header that weir accepts. The format would allow 65,551 bytes; real headers,
/// TLVs with names of certificates included, are far below this limit.
pub const MAX_V2_BYTES: usize = 4096;

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED: usize = 16;

/// Result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Partial,
    /// A complete header.
    Done {
        /// Its length; the bytes of the connection follow.
        consumed: usize,
        /// The source by the sender; `None` for its own connections (`LOCAL`, for instance health
        /// checks) or an unknown source (`UNKNOWN`, `UNSPEC`, a Unix socket).
        source: Option<SocketAddr>,
    },
}

/// The bytes are not a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyProtocolError {
    /// Neither signature.
    #[error("the connection does not start with a PROXY protocol header")]
    Signature,
    /// A version 1 line that is too long or malformed.
    #[error("the PROXY protocol line is malformed")]
    Line,
    /// A version 2 header with an unknown version, command or family.
    #[error("the PROXY protocol header has an unknown version, command or family")]
    Unknown,
    /// A version 2 header whose length does not fit what it holds, or is beyond [`MAX_V2_BYTES`].
    #[error("the PROXY protocol header has a wrong length")]
    Length,
}

/// Reads the header at the start of `bytes`; call it again with more after [`Parsed::Partial`].
///
/// # Errors
/// As soon as the bytes cannot become a header, so that at most [`MAX_V2_BYTES`] bytes are awaited.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    if starts(bytes, V2_SIGNATURE) {
        version_2(bytes)
    } else if starts(bytes, b"PROXY ") {
        version_1(bytes)
    } else {
        Err(ProxyProtocolError::Signature)
    }
}

/// Whether `bytes` is a part of the signature or starts with it.
fn starts(bytes: &[u8], signature: &[u8]) -> bool {
    let common = bytes.len().min(signature.len());
    bytes[..common] == signature[..common]
}

fn version_1(bytes: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    let window = &bytes[..bytes.len().min(MAX_V1_BYTES)];
    let Some(feed) = memchr::memchr(b'\n', window) else {
        return if window.len() == MAX_V1_BYTES || has_invalid_text(window) {
            Err(ProxyProtocolError::Line)
        } else {
            Ok(Parsed::Partial)
        };
    };
    let line = window[..feed].strip_suffix(b"\r").ok_or(ProxyProtocolError::Line)?;
    let line = std::str::from_utf8(line).map_err(|_| ProxyProtocolError::Line)?;
    let source = source_1(line).ok_or(ProxyProtocolError::Line)?;
    Ok(Parsed::Done { consumed: feed + 1, source })
}

/// Whether an incomplete line already has an invalid byte.
fn has_invalid_text(window: &[u8]) -> bool {
    let text = window.strip_suffix(b"\r").unwrap_or(window);
    text.iter().any(|b| !(b' '..=b'~').contains(b))
}

/// The source of a complete line without its CRLF: `Some(None)` for `UNKNOWN`.
fn source_1(line: &str) -> Option<Option<SocketAddr>> {
    let mut fields = line.strip_prefix("PROXY ")?.split(' ');
    let family = fields.next()?;
    if family == "UNKNOWN" {
        // The rest of the line must be ignored (section 2.1), as long as it is text.
        return line.bytes().all(|b| (b' '..=b'~').contains(&b)).then_some(None);
    }
    let (source, target) = (fields.next()?, fields.next()?);
    let (port, target_port) = (fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let source: IpAddr = match family {
        "TCP4" => {
            target.parse::<Ipv4Addr>().ok()?;
            source.parse::<Ipv4Addr>().ok()?.into()
        }
        "TCP6" => {
            target.parse::<Ipv6Addr>().ok()?;
            source.parse::<Ipv6Addr>().ok()?.into()
        }
        _ => return None,
    };
    parse_port(target_port)?;
    Some(Some(SocketAddr::new(source, parse_port(port)?)))
}

/// A decimal port without sign or leading zero.
fn parse_port(text: &str) -> Option<u16> {
    let canonical = text == "0" || matches!(text.as_bytes().first(), Some(b'1'..=b'9'));
    canonical.then(|| text.parse().ok())?
}

fn version_2(bytes: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    // Check every byte as soon as it has arrived.
    if bytes.get(12).is_some_and(|b| !matches!(b, 0x20 | 0x21)) {
        return Err(ProxyProtocolError::Unknown);
    }
    if bytes.get(13).is_some_and(|b| b >> 4 > 3 || b & 15 > 2) {
        return Err(ProxyProtocolError::Unknown);
    }
    let Some(fixed) = bytes.first_chunk::<V2_FIXED>() else { return Ok(Parsed::Partial) };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let consumed = V2_FIXED + length;
    if consumed > MAX_V2_BYTES {
        return Err(ProxyProtocolError::Length);
    }
    let local = fixed[12] == 0x20;
    let addresses = match (local, fixed[13]) {
        // Family and addresses of LOCAL are to be ignored; so are those of an unspecified family.
        (true, _) => None,
        (false, family) => address_length(family).ok_or(ProxyProtocolError::Unknown)?,
    };
    if addresses.is_some_and(|needed| length < needed) {
        return Err(ProxyProtocolError::Length);
    }
    let Some(rest) = bytes.get(V2_FIXED..consumed) else { return Ok(Parsed::Partial) };
    let Some(needed) = addresses else { return Ok(Parsed::Done { consumed, source: None }) };
    if !are_well_formed(&rest[needed..]) {
        return Err(ProxyProtocolError::Length);
    }
    Ok(Parsed::Done { consumed, source: source_2(&rest[..needed]) })
}

/// Bytes of addresses for a family and transport; `Some(None)` without addresses, and `None` for
/// combinations that are impossible on a TCP listener.
fn address_length(family: u8) -> Option<Option<usize>> {
    match family {
        0x00 => Some(None),
        0x11 => Some(Some(12)),
        0x21 => Some(Some(36)),
        0x31 => Some(Some(216)),
        _ => None,
    }
}

/// The source address of a block whose length identifies its family.
fn source_2(block: &[u8]) -> Option<SocketAddr> {
    match block.len() {
        12 => {
            let address: [u8; 4] = block[..4].try_into().ok()?;
            Some(SocketAddr::new(address.into(), u16::from_be_bytes([block[8], block[9]])))
        }
        36 => {
            let address: [u8; 16] = block[..16].try_into().ok()?;
            Some(SocketAddr::new(address.into(), u16::from_be_bytes([block[32], block[33]])))
        }
        _ => None,
    }
}

/// Whether TLVs (a type byte, two length bytes, the value) fill the rest of the header exactly.
fn are_well_formed(mut tlvs: &[u8]) -> bool {
    while let [_, high, low, rest @ ..] = tlvs {
        let Some(next) = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..) else {
            return false;
        };
        tlvs = next;
    }
    tlvs.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn done(consumed: usize, source: Option<&str>) -> Result<Parsed, ProxyProtocolError> {
        let source = source.map(|s| s.parse().expect("a socket address"));
        Ok(Parsed::Done { consumed, source })
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend((rest.len() as u16).to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 0, 80];

    #[test]
    fn version_1_lines() {
        let line = b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 80\r\nGET /";
        assert_eq!(parse(line), done(40, Some("192.0.2.7:12345")));
        let line = b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n";
        assert_eq!(parse(line), done(line.len(), Some("[2001:db8::7]:1")));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), done(15, None));
        assert_eq!(parse(b"PROXY UNKNOWN ff:: x 1\r\n"), done(24, None));
        let longest = b"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
            ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe 65535 65535\r\n";
        assert!(matches!(parse(longest), Ok(Parsed::Done { source: Some(_), .. })));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for bad in [
            &b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 80\n"[..],
            b"PROXY TCP4  192.0.2.7 10.0.0.1 12345 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 80 \r\n",
            b"PROXY TCP4 192.0.2.07 10.0.0.1 12345 80\r\n",
            b"PROXY TCP4 ::1 10.0.0.1 12345 80\r\n",
            b"PROXY TCP6 ::1 10.0.0.1 12345 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 012345 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 +1 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n",
            b"PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n",
            b"PROXY unknown\r\n",
            b"PROXY UNKNOWN \x01\r\n",
            b"PROXY \r\n",
            b"PROXY TCP4\0",
        ] {
            assert_eq!(parse(bad), Err(ProxyProtocolError::Line), "{}", bad.escape_ascii());
        }
        assert_eq!(
            parse(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100]].concat()),
            Err(ProxyProtocolError::Line)
        );
    }

    #[test]
    fn other_bytes_are_refused_at_once() {
        for bad in
            [&b"G"[..], b"GET / HTTP/1.1\r\n", b"PROXX", b"proxy TCP4", b"\r\n\r\n\0\r\nQUIX"]
        {
            assert_eq!(parse(bad), Err(ProxyProtocolError::Signature));
        }
        assert_eq!(parse(b""), Ok(Parsed::Partial));
    }

    #[test]
    fn version_2_headers() {
        assert_eq!(parse(&v2(0x21, 0x11, &V4)), done(28, Some("192.0.2.7:12345")));
        let mut v6 = [0; 36];
        v6[15] = 1;
        v6[33] = 80;
        assert_eq!(parse(&v2(0x21, 0x21, &v6)), done(52, Some("[::1]:80")));
        assert_eq!(parse(&v2(0x21, 0x31, &[1; 216])), done(232, None));
        assert_eq!(parse(&v2(0x21, 0x00, &[])), done(16, None));
        assert_eq!(parse(&v2(0x21, 0x00, b"any")), done(19, None));
        assert_eq!(parse(&v2(0x20, 0x11, &V4)), done(28, None));
        assert_eq!(parse(&v2(0x20, 0x00, &[])), done(16, None));
        let with_tlv = [&V4[..], &[4, 0, 1, 9], &[3, 0, 0]].concat();
        assert_eq!(parse(&v2(0x21, 0x11, &with_tlv)), done(35, Some("192.0.2.7:12345")));
    }

    #[test]
    fn malformed_version_2_headers_are_refused() {
        use ProxyProtocolError::{Length, Unknown};
        for (bytes, why) in [
            (v2(0x11, 0x11, &V4), Unknown),
            (v2(0x22, 0x11, &V4), Unknown),
            (v2(0x21, 0x12, &V4), Unknown),
            (v2(0x21, 0x13, &V4), Unknown),
            (v2(0x21, 0x41, &V4), Unknown),
            (v2(0x21, 0x11, &V4[..11]), Length),
            (v2(0x21, 0x21, &V4), Length),
            (v2(0x21, 0x11, &[&V4[..], &[4, 0, 2, 9]].concat()), Length),
            (v2(0x21, 0x11, &[&V4[..], &[4, 0]].concat()), Length),
            (v2(0x21, 0x00, &vec![0; MAX_V2_BYTES]), Length),
        ] {
            assert_eq!(parse(&bytes), Err(why), "{bytes:?}");
        }
    }

    fn header() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (any::<[u8; 4]>(), any::<u16>()).prop_map(|(a, port)| {
                let a = Ipv4Addr::from(a);
                format!("PROXY TCP4 {a} 127.0.0.1 {port} 80\r\n").into_bytes()
            }),
            (any::<[u8; 16]>(), any::<u16>()).prop_map(|(a, port)| {
                let a = Ipv6Addr::from(a);
                format!("PROXY TCP6 {a} ::1 {port} 80\r\n").into_bytes()
            }),
            (prop::collection::vec(any::<u8>(), 12), 0u16..40).prop_map(|(mut rest, tlv)| {
                rest.push(4);
                rest.extend(tlv.to_be_bytes());
                rest.extend(vec![7; usize::from(tlv)]);
                v2(0x21, 0x11, &rest)
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(header in header(), after in prop::collection::vec(any::<u8>(), 0..20)) {
            let whole = [&header[..], &after].concat();
            let result = parse(&whole);
            let whole = matches!(result, Ok(Parsed::Done { consumed, source: Some(_) })
                if consumed == header.len());
            prop_assert!(whole, "{:?}", result);
            for cut in 0..header.len() {
                prop_assert_eq!(parse(&header[..cut]), Ok(Parsed::Partial), "cut at {}", cut);
            }
        }

        #[test]
        fn garbage_never_panics_and_waiting_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..64), v1: bool) {
            let start: &[u8] = if v1 { b"PROXY " } else { V2_SIGNATURE };
            let bytes = [start, &bytes].concat();
            // What is refused early is refused whole.
            for cut in 0..bytes.len() {
                if let early @ Err(_) = parse(&bytes[..cut]) {
                    prop_assert_eq!(parse(&bytes), early);
                }
            }
            let long = [&bytes[..], &[b'a'; MAX_V2_BYTES]].concat();
            prop_assert_ne!(parse(&long), Ok(Parsed::Partial));
        }
    }
}
