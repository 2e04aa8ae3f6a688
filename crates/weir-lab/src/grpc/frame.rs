//! Framed messages: a flag, four bytes of length, the message (`grpc/doc/PROTOCOL-HTTP2.md`).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// Largest message, also after decompression.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
const PREFIX_BYTES: usize = 5;

/// Why bytes are no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a message starts with {0} instead of 0 or 1")]
    Flag(u8),
    #[error("a message has more than {} MiB", MAX_MESSAGE_BYTES >> 20)]
    TooLarge,
    #[error("the response ended within a message")]
    Incomplete,
    #[error("a message is compressed with {0:?}: only gzip is accepted")]
    Coding(String),
    #[error("a message is not gzip: {0}")]
    Gzip(String),
}

/// A message with its prefix.
pub(crate) fn frame(message: &impl prost::Message) -> Result<Bytes, FrameError> {
    let length = message.encoded_len();
    let prefix = u32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE_BYTES);
    let prefix = prefix.ok_or(FrameError::TooLarge)?;
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + length);
    out.put_u8(0);
    out.put_u32(prefix);
    // The buffer grows: there is always room.
    message.encode(&mut out).map_err(|_| FrameError::TooLarge)?;
    Ok(out.freeze())
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    compressed: bool,
    bytes: Bytes,
}

impl Frame {
    /// Received bytes of the message.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Reads messages from the parts of a body.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
    coding: Vec<u8>,
}

impl Decoder {
    /// For messages with this `grpc-encoding`.
    pub(crate) fn new(coding: &[u8]) -> Self {
        Self { buffer: BytesMut::new(), coding: coding.to_vec() }
    }

    /// Adds a part of the body.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.buffer.extend_from_slice(part);
    }

    /// The next complete message.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let [flag, length @ ..] = *prefix;
        if flag > 1 {
            return Err(FrameError::Flag(flag));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(FrameError::TooLarge);
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        let bytes = self.buffer.split_to(length).freeze();
        Ok(Some(Frame { compressed: flag == 1, bytes }))
    }

    /// The message without compression.
    pub(crate) fn content(&self, frame: Frame) -> Result<Bytes, FrameError> {
        if !frame.compressed {
            return Ok(frame.bytes);
        }
        if self.coding != b"gzip" {
            let coding = String::from_utf8_lossy(&self.coding).into_owned();
            return Err(FrameError::Coding(coding));
        }
        let mut content = Vec::new();
        let mut decoder = MultiGzDecoder::new(&*frame.bytes).take(MAX_MESSAGE_BYTES as u64 + 1);
        let read = decoder.read_to_end(&mut content);
        read.map_err(|error| FrameError::Gzip(error.to_string()))?;
        match content.len() > MAX_MESSAGE_BYTES {
            true => Err(FrameError::TooLarge),
            false => Ok(content.into()),
        }
    }

    /// The body has ended.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Incomplete) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let mut out = vec![flag];
        out.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        out.extend_from_slice(message);
        out
    }

    fn read(coding: &[u8], parts: &[&[u8]]) -> Result<Vec<Bytes>, FrameError> {
        let mut decoder = Decoder::new(coding);
        let mut found = Vec::new();
        for part in parts {
            decoder.add(part);
            while let Some(frame) = decoder.next()? {
                found.push(decoder.content(frame)?);
            }
        }
        decoder.finish().map(|()| found)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::new();
        GzEncoder::new(text, Compression::fast()).read_to_end(&mut encoded).unwrap();
        encoded
    }

    #[test]
    fn messages_are_found_in_any_parts() {
        let mut bytes = framed(0, b"hello");
        bytes.extend(framed(0, b""));
        bytes.extend(framed(1, &gzip(b"world")));
        let expected = [&b"hello"[..], b"", b"world"];
        assert_eq!(read(b"gzip", &[&bytes]).unwrap(), expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(b"gzip", &single).unwrap(), expected, "byte by byte");
        assert_eq!(frame(&"hello".to_owned()).unwrap(), framed(0, b"\x0a\x05hello"));
    }

    #[test]
    fn malformed_messages_are_errors() {
        assert_eq!(read(b"", &[&[2, 0, 0, 0, 0]]), Err(FrameError::Flag(2)));
        assert_eq!(read(b"", &[&[0, 0xff, 0, 0, 0]]), Err(FrameError::TooLarge));
        assert_eq!(read(b"", &[&[0, 0, 0, 0, 2, 1]]), Err(FrameError::Incomplete));
        let zstd = read(b"zstd", &[&framed(1, b"x")]);
        assert_eq!(zstd, Err(FrameError::Coding("zstd".to_owned())));
        assert!(matches!(read(b"gzip", &[&framed(1, b"plain")]), Err(FrameError::Gzip(_))));
        let bomb = gzip(&vec![0; MAX_MESSAGE_BYTES + 1]);
        assert_eq!(read(b"gzip", &[&framed(1, &bomb)]), Err(FrameError::TooLarge));
    }
}
