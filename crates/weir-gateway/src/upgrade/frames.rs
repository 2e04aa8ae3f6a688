//! Frame boundaries of a WebSocket (RFC 6455 section 5.2), used to count messages, to find the
//! status of the close frame, and to insert frames between others.
//!
//! Frames are not validated, except by the receiver. After a malformed frame, boundaries are
//! unknown.

/// Maximum length of a frame head in bytes: two, eight of length, four of mask.
const HEAD: usize = 14;
/// Opcode of a close frame.
const CLOSE: u8 = 8;

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD],
    /// Number of received bytes of the head.
    have: u8,
    /// Remaining bytes of the payload.
    left: u64,
    /// The received part of the status of a close frame.
    status: Vec<u8>,
    messages: u64,
    closed: bool,
    /// A frame was malformed.
    lost: bool,
}

impl Frames {
    /// Number of messages whose last frame has begun.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// A close frame has passed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The status of the close frame, if it has one.
    pub(super) fn status(&self) -> Option<u16> {
        let masked = self.head[1] & 0x80 != 0;
        let mask = if masked { [self.head[2], self.head[3]] } else { [0; 2] };
        let [high, low] = *self.status else { return None };
        self.closed.then(|| u16::from_be_bytes([high ^ mask[0], low ^ mask[1]]))
    }

    /// The last byte was the end of a frame, and another frame may follow.
    pub(super) fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0 && !self.lost && !self.closed
    }

    /// Further bytes are not parsed.
    fn is_over(&self) -> bool {
        self.lost || (self.closed && self.left == 0)
    }

    /// Parses bytes that are copied.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_over() {
            if self.left > 0 {
                let count = self.left.min(bytes.len() as u64) as usize;
                if self.closed {
                    let missing = 2usize.saturating_sub(self.status.len());
                    self.status.extend_from_slice(&bytes[..count.min(missing)]);
                }
                self.left -= count as u64;
                bytes = &bytes[count..];
                continue;
            }
            self.head[usize::from(self.have)] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if self.have >= 2 && usize::from(self.have) == self.head_length() {
                self.begin();
            }
        }
    }

    fn head_length(&self) -> usize {
        let length = match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.head[1] & 0x80 != 0 { 4 } else { 0 }
    }

    /// Starts a frame after its complete head.
    fn begin(&mut self) {
        let length = match self.head[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes([self.head[2], self.head[3]])),
            127 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.head[2..10]);
                u64::from_be_bytes(bytes)
            }
            length => u64::from(length),
        };
        let (last, kind) = (self.head[0] & 0x80 != 0, self.head[0] & 0x0f);
        // A length has 63 bits, that of a control frame seven.
        self.lost = length >> 63 != 0 || (kind >= CLOSE && length > 125);
        self.messages += u64::from(last && kind < CLOSE);
        self.closed = kind == CLOSE;
        self.left = length;
        self.have = 0;
    }
}

/// A close frame with this status, masked for a server.
pub(super) fn close(status: u16, mask: Option<[u8; 4]>) -> Vec<u8> {
    let [high, low] = status.to_be_bytes();
    match mask {
        None => vec![0x80 | CLOSE, 2, high, low],
        Some([a, b, c, d]) => vec![0x80 | CLOSE, 0x82, a, b, c, d, high ^ a, low ^ b],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: usize, mask: bool) -> Vec<u8> {
        let bit = if mask { 0x80 } else { 0 };
        let mut bytes = vec![first];
        match payload {
            0..=125 => bytes.push(payload as u8 | bit),
            126..=65_535 => {
                bytes.push(126 | bit);
                bytes.extend_from_slice(&(payload as u16).to_be_bytes());
            }
            _ => {
                bytes.push(127 | bit);
                bytes.extend_from_slice(&(payload as u64).to_be_bytes());
            }
        }
        if mask {
            bytes.extend_from_slice(&[1, 2, 3, 4]);
        }
        bytes.resize(bytes.len() + payload, 0x81);
        bytes
    }

    /// Two messages, the second in two frames with a ping between them, then an end.
    fn conversation(mask: bool) -> Vec<u8> {
        let frames =
            [(0x81, 0), (0x81, 125), (0x02, 126), (0x89, 3), (0x80, 70_000), (0x82, 65_535)];
        let mut bytes: Vec<u8> =
            frames.iter().flat_map(|(first, length)| frame(*first, *length, mask)).collect();
        bytes.extend(close(1001, mask.then_some([7, 8, 9, 10])));
        bytes
    }

    #[test]
    fn messages_and_the_end_are_found_wherever_bytes_are_cut() {
        for mask in [false, true] {
            let bytes = conversation(mask);
            for size in [1, 2, 3, 7, 100, 4096, bytes.len()] {
                let mut frames = Frames::default();
                for piece in bytes.chunks(size) {
                    assert_eq!(frames.status(), None);
                    frames.pass(piece);
                }
                assert_eq!((frames.messages(), frames.status()), (4, Some(1001)), "{mask} {size}");
                assert!(frames.is_closed() && !frames.is_between());
            }
        }
    }

    #[test]
    fn between_two_frames_is_only_where_one_has_ended() {
        let bytes = [frame(0x81, 200, true), frame(0x89, 0, true)].concat();
        let mut frames = Frames::default();
        let first = bytes.len() - 6;
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(frames.is_between(), at == 0 || at == first, "{at}");
            frames.pass(&[*byte]);
        }
        assert!(frames.is_between());
    }

    #[test]
    fn an_end_may_have_no_status_and_what_is_no_frame_is_let_go() {
        let mut frames = Frames::default();
        frames.pass(&frame(0x88, 0, false));
        assert!(frames.is_closed());
        frames.pass(&[0x88, 2, 3, 232]);
        assert_eq!(frames.status(), None, "nothing follows an end");
        for garbage in [&[0x81, 0x7f, 0xff, 0, 0, 0, 0, 0, 0, 0][..], &[0x88, 0x7e, 1, 0]] {
            let mut frames = Frames::default();
            frames.pass(garbage);
            frames.pass(&frame(0x81, 5, false));
            assert!(!frames.is_between() && frames.status().is_none());
        }
    }
}
