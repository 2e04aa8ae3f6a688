//! Properties of the HTTP/1.x codec that hold for any bytes, in both directions.
//!
//! - It does not matter how the bytes are split: the same messages, the same bodies, the same error.
//! - Every range it gives lies inside its input, and it never panics.
//! - What it accepts is well-formed by a second, naive reading of the same bytes.
//! - What it accepts, written out again, is read as the same message.

use weir_wire::{
    BodyDecoder, Framing, HeadLimits, Headers, Method, RequestHead, ResponseHead, Scan, Version,
    encode,
};

/// Small enough for inputs to reach them.
const LIMITS: HeadLimits = HeadLimits { bytes: 1024, fields: 12, target: 200 };
/// Most messages read from one input.
const MESSAGES: usize = 32;

/// Checks every property on `bytes` as what a client sends.
pub fn requests(bytes: &[u8]) {
    check(Side::Requests, bytes);
}

/// Checks every property on `bytes` as what an upstream answers.
pub fn answers(bytes: &[u8]) {
    check(Side::Answers(Method::Get), bytes);
    check(Side::Answers(Method::Head), bytes);
}

#[derive(Clone, Copy)]
enum Side {
    Requests,
    Answers(Method),
}

/// A message as it was read.
#[derive(Debug, PartialEq)]
struct Message {
    raw_head: Vec<u8>,
    head: Head,
    body: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
    complete: bool,
}

#[derive(Debug, PartialEq)]
struct Head {
    /// Method, target and authority, or the status.
    line: [String; 3],
    version: Version,
    fields: Vec<(String, Vec<u8>)>,
    framing: Framing,
    keep_alive: bool,
}

/// All that was read, why reading ended, and how many bytes were left.
#[derive(Debug, PartialEq)]
struct Reading {
    messages: Vec<Message>,
    error: Option<String>,
    left: usize,
}

fn check(side: Side, bytes: &[u8]) {
    let whole = read(side, [bytes]);
    assert_eq!(whole, read(side, bytes.chunks(1)), "byte by byte");
    let mut random = Random::seeded_by(bytes);
    assert_eq!(whole, read(side, random.pieces(bytes)), "in random pieces");
    for message in &whole.messages {
        check_head(side, message);
        if message.complete {
            check_written_again(side, message);
        }
    }
}

/// Reads messages as a connection would: bytes are appended to a buffer as they come.
fn read<'a>(side: Side, pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut reading = Reading { messages: Vec::new(), error: None, left: 0 };
    let (mut parser, mut body) = (Parser::default(), None::<BodyDecoder>);
    let mut buffer = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let step = match &mut body {
                None => head_step(side, &mut buffer, &mut parser, &mut reading, &mut body),
                Some(decoder) => {
                    let step = body_step(decoder, &mut buffer, &mut reading);
                    if decoder.is_done() {
                        body = None;
                    }
                    step
                }
            };
            match step {
                Ok(true) if reading.messages.len() <= MESSAGES => {}
                Ok(_) => break,
                Err(error) => {
                    reading.error = Some(error);
                    // What comes behind an error is never looked at.
                    reading.left = 0;
                    return reading;
                }
            }
        }
    }
    if let (Some(mut decoder), Some(message)) = (body, reading.messages.last_mut()) {
        message.complete = decoder.close().is_ok();
    }
    reading.left = buffer.len();
    reading
}

/// Reads a head if it is there; whether it was.
fn head_step(
    side: Side,
    buffer: &mut Vec<u8>,
    parser: &mut Parser,
    reading: &mut Reading,
    body: &mut Option<BodyDecoder>,
) -> Result<bool, String> {
    if reading.messages.len() == MESSAGES {
        return Ok(false);
    }
    let Some((taken, head)) = parse(side, buffer, parser)? else { return Ok(false) };
    assert!(taken <= buffer.len());
    let decoder = BodyDecoder::new(head.framing);
    let complete = decoder.is_done();
    assert_eq!(complete, head.framing.is_empty());
    let raw_head = buffer.drain(..taken).collect();
    reading.messages.push(Message {
        raw_head,
        head,
        body: Vec::new(),
        trailers: Vec::new(),
        complete,
    });
    parser.scan = Scan::new();
    if !complete {
        *body = Some(decoder);
    }
    Ok(true)
}

/// Reads body if there is any; whether anything was taken.
fn body_step(
    decoder: &mut BodyDecoder,
    buffer: &mut Vec<u8>,
    reading: &mut Reading,
) -> Result<bool, String> {
    let decoded = decoder.decode(buffer).map_err(|error| error.to_string())?;
    assert!(decoded.data.start <= decoded.data.end);
    assert_eq!(decoded.data.end, decoded.consumed);
    assert!(decoded.consumed <= buffer.len());
    let message = reading.messages.last_mut().expect("a body has a head before it");
    message.body.extend_from_slice(&buffer[decoded.data]);
    buffer.drain(..decoded.consumed);
    if decoder.is_done() {
        message.complete = true;
        message.trailers = decoder.trailers().map(listed).unwrap_or_default();
    }
    Ok(decoded.consumed > 0)
}

/// What is kept from one piece of a head to the next.
#[derive(Default)]
struct Parser {
    scan: Scan,
    request: RequestHead,
    response: ResponseHead,
}

fn parse(side: Side, bytes: &[u8], parser: &mut Parser) -> Result<Option<(usize, Head)>, String> {
    let Parser { scan, request, response } = parser;
    match side {
        Side::Requests => {
            let head = request;
            let taken = head.parse(bytes, scan, &LIMITS).map_err(|error| error.to_string())?;
            if taken.is_none() {
                return Ok(None);
            }
            let line = [head.method_name(), head.target(), head.authority()].map(String::from);
            assert_eq!(
                head.target(),
                match head.query() {
                    Some(query) => format!("{}?{query}", head.path()),
                    None => head.path().to_owned(),
                }
            );
            assert_ne!(head.framing, Framing::UntilClose);
            Ok(taken.map(|taken| {
                let RequestHead { version, framing, keep_alive, ref headers, .. } = *head;
                (taken, Head { line, version, fields: listed(headers), framing, keep_alive })
            }))
        }
        Side::Answers(method) => {
            let head = response;
            let taken =
                head.parse(bytes, method, scan, &LIMITS).map_err(|error| error.to_string())?;
            let line = [head.status.to_string(), String::new(), String::new()];
            Ok(taken.map(|taken| {
                let ResponseHead { version, framing, keep_alive, ref headers, .. } = *head;
                assert!(!(keep_alive && framing == Framing::UntilClose));
                (taken, Head { line, version, fields: listed(headers), framing, keep_alive })
            }))
        }
    }
}

fn listed(headers: &Headers) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(_, name, value)| (name.to_owned(), value.to_vec())).collect()
}

/// Reads an accepted head once more, as plainly as can be, and compares.
fn check_head(side: Side, message: &Message) {
    let raw = std::str::from_utf8(&message.raw_head).map_or_else(
        // One character a byte keeps positions and controls as they are.
        |_| message.raw_head.iter().map(|&b| b as char).collect(),
        str::to_owned,
    );
    let raw = raw.trim_start_matches("\r\n").strip_suffix("\r\n\r\n").expect("an empty line");
    assert!(raw.chars().count() + 4 <= LIMITS.bytes);
    let mut lines = raw.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let version = match side {
        Side::Requests => first.rsplit(' ').next(),
        Side::Answers(_) => first.split(' ').next(),
    };
    let old = version == Some("HTTP/1.0");
    assert!(old || version == Some("HTTP/1.1"), "{first:?}");
    assert_eq!(old, message.head.version == Version::Http10);

    let mut named = Vec::new();
    for line in lines {
        let control = |c: char| c != '\t' && (c < ' ' || c == '\x7f');
        assert!(!line.contains(control), "{line:?}");
        let (name, value) = line.split_once(':').expect("a colon");
        assert!(!name.is_empty() && name.chars().all(is_token), "{line:?}");
        named.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
    assert!(named.len() <= LIMITS.fields);
    assert_eq!(named.len(), message.head.fields.len());
    let values = |wanted: &str| -> Vec<&str> {
        named.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect()
    };
    let declared = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => None,
        ([length], []) => Some(Framing::Length(length.parse().expect("a number"))),
        ([], [encoding]) => {
            assert!(encoding.eq_ignore_ascii_case("chunked") && !old, "{encoding:?}");
            Some(Framing::Chunked)
        }
        (lengths, encodings) => panic!("accepted {lengths:?} and {encodings:?}"),
    };
    match side {
        Side::Requests => {
            assert_eq!(message.head.framing, declared.unwrap_or(Framing::None));
            let hosts = values("host").len();
            assert!(hosts == 1 || (hosts == 0 && old), "{hosts} hosts");
        }
        Side::Answers(method) => {
            let status: u16 = message.head.line[0].parse().expect("a number");
            let none = method == Method::Head || matches!(status, 100..=199 | 204 | 304);
            let framing =
                if none { Framing::None } else { declared.unwrap_or(Framing::UntilClose) };
            assert_eq!(message.head.framing, framing);
        }
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Writes an accepted message again and reads that.
fn check_written_again(side: Side, message: &Message) {
    let head = &message.head;
    let [first, target, authority] = &head.line;
    // CONNECT has another kind of target; an old version is not written.
    if first == "CONNECT" || head.version == Version::Http10 {
        return;
    }
    let mut headers = Headers::new();
    for (name, value) in &head.fields {
        headers.push(name, value);
    }
    let mut out = Vec::new();
    match side {
        Side::Requests => {
            // An absolute target's authority goes before Host.
            headers.set("host", authority.as_bytes());
            encode::request_line(&mut out, first, target);
        }
        Side::Answers(_) => encode::status_line(&mut out, first.parse().expect("a number")),
    }
    encode::fields(&mut out, &headers);
    out.extend_from_slice(b"\r\n");
    if head.framing == Framing::Chunked {
        for data in message.body.chunks(17) {
            encode::chunk(&mut out, data);
        }
        out.extend_from_slice(b"0\r\n");
        for (name, value) in &message.trailers {
            encode::field(&mut out, name, value);
        }
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(&message.body);
    }
    if out.len() - message.body.len() > LIMITS.bytes {
        // Rewriting may make a head longer than it was.
        return;
    }
    let again = read(side, [&out[..]]);
    assert_eq!((again.left, &again.error), (0, &None));
    let [again] = &again.messages[..] else { panic!("read as {} messages", again.messages.len()) };
    assert!(again.complete);
    assert_eq!(again.head.line, head.line);
    assert_eq!((again.head.framing, again.head.keep_alive), (head.framing, head.keep_alive));
    assert_eq!(again.head.fields, listed(&headers));
    assert_eq!((&again.body, &again.trailers), (&message.body, &message.trailers));
}

/// Random numbers that depend on the input alone, so that a finding can be repeated.
struct Random(u64);

impl Random {
    /// FNV-1a of the bytes.
    fn seeded_by(bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn next(&mut self) -> u64 {
        // xorshift64.
        self.0 |= 1;
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let longest = bytes.len().min(1 << (self.next() % 8));
            let (piece, rest) = bytes.split_at(1 + (self.next() as usize) % longest);
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}
