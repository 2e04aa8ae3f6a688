//! A client of HTTP/2 (RFC 9113) that sends exactly the frames it is told to, malformed heads and
//! windows of no bytes included.

use super::process::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Kinds of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Flags of frames.
pub(crate) const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// One connection.
pub(crate) struct Frames {
    stream: TcpStream,
    input: Vec<u8>,
}

/// One frame of the server.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Whether nothing of its stream follows.
    pub(crate) fn ends(&self) -> bool {
        let last = matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0;
        last || self.kind == RST_STREAM
    }

    /// The status of a head, which is the first of its fields: from the static table of HPACK, or a
    /// literal whose digits are in its Huffman code.
    pub(crate) fn status(&self) -> u16 {
        const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
        assert_eq!(self.kind, HEADERS, "{self:?}");
        match self.payload[..] {
            [first @ 0x88..=0x8e, ..] => INDEXED[usize::from(first - 0x88)],
            [0x08 | 0x18 | 0x48, length, ref text @ ..] => {
                let text = &text[..usize::from(length & 0x7f)];
                if length & 0x80 == 0 {
                    return std::str::from_utf8(text).unwrap().parse().unwrap();
                }
                let bit = |at: usize| u16::from(text[at / 8] >> (7 - at % 8) & 1);
                let bits =
                    |at: usize, count: usize| (at..at + count).fold(0, |n, i| n << 1 | bit(i));
                let mut at = 0;
                (0..3).fold(0, |status, _| {
                    let short = bits(at, 5);
                    let (digit, length) =
                        if short < 3 { (short, 5) } else { (bits(at, 6) - 0x19 + 3, 6) };
                    at += length;
                    status * 10 + digit
                })
            }
            _ => panic!("a status in another form: {self:?}"),
        }
    }
}

impl Frames {
    /// Connects; the server may send so many bytes of each stream.
    pub(crate) fn connect(addr: SocketAddr, window: u32) -> Self {
        let stream = TcpStream::connect(addr).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        let mut client = Self { stream, input: Vec::new() };
        client.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let [a, b, c, d] = window.to_be_bytes();
        client.send(SETTINGS, 0, 0, &[0, 4, a, b, c, d]);
        client
    }

    fn raw(&mut self, bytes: &[u8]) {
        // The server may have closed already; what it answered is still to be read.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.raw(&frame);
    }

    /// Sends a head with exactly these fields, as literals that nobody compresses.
    pub(crate) fn head(&mut self, stream: u32, fields: &[(&str, &[u8])], flags: u8) {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0x10);
            for text in [name.as_bytes(), value] {
                match u8::try_from(text.len()).unwrap() {
                    length @ ..0x7f => block.push(length),
                    length => block.extend([0x7f, length - 0x7f]),
                }
                block.extend(text);
            }
        }
        self.send(HEADERS, flags | END_HEADERS, stream, &block);
    }

    /// Sends a GET without a body.
    pub(crate) fn get(&mut self, stream: u32, path: &str) {
        let fields: &[(&str, &[u8])] = &[
            (":method", b"GET"),
            (":scheme", b"http"),
            (":authority", b"localhost"),
            (":path", path.as_bytes()),
        ];
        self.head(stream, fields, END_STREAM);
    }

    /// Lets the server send more of a stream, or of all of them.
    pub(crate) fn grow_window(&mut self, stream: u32, by: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    }

    /// The next frame of a stream: settings and PINGs are acknowledged on the way. `None` when the
    /// server has closed.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            while self.input.len() < 9 {
                self.fill()?;
            }
            let length = self.input[..3].iter().fold(0, |n, &byte| n << 8 | usize::from(byte));
            while self.input.len() < 9 + length {
                self.fill()?;
            }
            let (kind, flags) = (self.input[3], self.input[4]);
            let stream = self.input[5..9].iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
            let payload = self.input[9..9 + length].to_vec();
            self.input.drain(..9 + length);
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let back: &[u8] = if kind == PING { &payload } else { b"" };
                    self.send(kind, ACK, 0, back);
                }
                _ if stream != 0 && kind != WINDOW_UPDATE => {
                    return Some(Frame { kind, flags, payload });
                }
                _ => {}
            }
        }
    }

    /// The next frame, if one comes within this time.
    pub(crate) fn next_within(&mut self, time: Duration) -> Option<Frame> {
        self.stream.set_read_timeout(Some(time)).expect("a timeout");
        let frame = self.next();
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        frame
    }

    fn fill(&mut self) -> Option<()> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes).ok().filter(|&count| count > 0)?;
        self.input.extend(&bytes[..count]);
        Some(())
    }
}
