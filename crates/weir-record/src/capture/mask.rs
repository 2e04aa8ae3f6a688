//! Bodies that are masked before they are recorded: each is buffered until its end, within a budget
//! of the process. The forwarded bytes are not changed or delayed.

use super::Recorder;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_config::ContentCoding;
use weir_expr::BodyMask;
use weir_http::compress::Encoder;
use weir_http::headers::is_json;
use weir_journal::Withheld;
use weir_wire::{Headers, Known};

/// Maximum length of a masked body, whatever `body_limit` is: a record holds two bodies and has to
/// fit into a segment.
pub(super) const LONGEST: u64 = 4 << 20;
/// Maximum decoded length of a compressed body, unless `body_limit` is larger: masking must not
/// block the worker.
const DECODED: u64 = 1 << 20;
/// Maximum length of a text that is parsed into a tree, which takes up to a hundred times as much
/// memory.
const IN_TREE: u64 = 256 << 10;
/// Bytes decoded per step.
const STEP: u64 = 16 << 10;

/// Bytes of buffered bodies, of all workers.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    /// Reserves bytes; false if the budget is exhausted.
    fn take(&self, bytes: u64, limit: u64) -> bool {
        let taken = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}

/// A reservation in the budget, released on drop.
struct Room {
    bytes: u64,
    recorder: &'static Recorder,
}

impl Room {
    fn none(recorder: &'static Recorder) -> Self {
        Self { bytes: 0, recorder }
    }

    /// Grows the reservation to at least this number of bytes.
    ///
    /// # Errors
    /// The budget is exhausted.
    fn reach(&mut self, needed: u64, budget: u64) -> Result<(), Withheld> {
        if needed > self.bytes {
            // Doubles the reservation, so that the buffer is not moved with every chunk; if the
            // budget lacks that much, reserves only what is needed.
            let shared = &self.recorder.common.budget;
            let sizes = [needed.max(self.bytes * 2), needed];
            let got = sizes.into_iter().find(|room| shared.take(room - self.bytes, budget));
            self.bytes = got.ok_or(Withheld::Budget)?;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.recorder.common.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Format of a body, for masking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Urlencoded,
}

/// A buffered body.
pub(super) struct Held {
    bytes: Vec<u8>,
    room: Room,
    form: Form,
    coding: Option<ContentCoding>,
}

impl Held {
    /// Starts a buffer for a body with these headers.
    ///
    /// # Errors
    /// The body cannot be masked.
    pub(super) fn new(headers: &Headers, recorder: &'static Recorder) -> Result<Self, Withheld> {
        let form = form(headers).ok_or(Withheld::Unreadable)?;
        let coding = match headers.known(Known::ContentEncoding) {
            None => None,
            Some(name) if name.eq_ignore_ascii_case(b"identity") => None,
            Some(name) if name.eq_ignore_ascii_case(b"x-gzip") => Some(ContentCoding::Gzip),
            Some(name) => {
                let is_it = |c: &ContentCoding| name.eq_ignore_ascii_case(c.as_ref().as_bytes());
                Some(ContentCoding::ALL.into_iter().find(is_it).ok_or(Withheld::Coding)?)
            }
        };
        Ok(Self { bytes: Vec::new(), room: Room::none(recorder), form, coding })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn add(&mut self, bytes: &[u8], budget: u64) -> Result<(), Withheld> {
        self.room.reach((self.bytes.len() + bytes.len()) as u64, budget)?;
        if self.bytes.capacity() < self.room.bytes as usize {
            self.bytes.reserve_exact(self.room.bytes as usize - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The complete body, masked, in its original content coding; none if masking changes nothing.
    /// At most `limit` bytes of a body are stored.
    ///
    /// # Errors
    /// The body does not match its headers, is too long when decoded, or the budget is exhausted.
    pub(super) fn masked(
        &self,
        mask: &BodyMask,
        limit: u64,
        budget: u64,
    ) -> Result<Option<Vec<u8>>, Withheld> {
        let in_tree = self.form == Form::Json && mask.needs_tree();
        let most = if in_tree { IN_TREE } else { limit.max(DECODED) };
        if self.bytes.len() as u64 > most {
            return Err(Withheld::Long);
        }
        let Some(coding) = self.coding else {
            let masked = masked(self.form, &self.bytes, mask)?;
            return Ok((masked != self.bytes).then_some(masked));
        };
        let (plain, _room) = self.decoded(coding, most, budget)?;
        let masked = masked(self.form, &plain, mask)?;
        if masked == plain {
            return Ok(None);
        }
        let mut packed = Vec::new();
        let packing = Encoder::new(coding, 1).and_then(|mut encoder| {
            encoder.write(&masked, &mut packed)?;
            encoder.finish(&mut packed)
        });
        packing.map(|()| Some(packed)).map_err(|_| Withheld::Coding)
    }

    /// The bytes as received.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The decoded body, at most this number of bytes, and its reservation.
    fn decoded(
        &self,
        coding: ContentCoding,
        most: u64,
        budget: u64,
    ) -> Result<(Vec<u8>, Room), Withheld> {
        let mut room = Room::none(self.room.recorder);
        let mut plain = Vec::new();
        let mut decoder = decoder(coding, &self.bytes)?;
        loop {
            let read = decoder.by_ref().take(STEP).read_to_end(&mut plain);
            let read = read.map_err(|_| Withheld::Coding)?;
            if plain.len() as u64 > most {
                return Err(Withheld::Long);
            }
            room.reach(plain.len() as u64, budget)?;
            if read == 0 {
                return Ok((plain, room));
            }
        }
    }
}

/// A streaming decoder for this content coding.
fn decoder(coding: ContentCoding, bytes: &[u8]) -> Result<Box<dyn Read + '_>, Withheld> {
    Ok(match coding {
        ContentCoding::Gzip => Box::new(MultiGzDecoder::new(bytes)),
        ContentCoding::Br => Box::new(brotli::Decompressor::new(bytes, STEP as usize)),
        ContentCoding::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes);
            let mut decoder = decoder.map_err(|_| Withheld::Coding)?;
            // The window that every decoder must support (RFC 9659), and no larger one, whatever a
            // frame demands.
            decoder.window_log_max(23).map_err(|_| Withheld::Coding)?;
            Box::new(decoder)
        }
    })
}

/// The format that the headers declare; none if it cannot be masked.
fn form(headers: &Headers) -> Option<Form> {
    let value = headers.known(Known::ContentType)?;
    if is_json(value) {
        return Some(Form::Json);
    }
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let is_form = essence.eq_ignore_ascii_case(b"application/x-www-form-urlencoded");
    is_form.then_some(Form::Urlencoded)
}

fn masked(form: Form, plain: &[u8], mask: &BodyMask) -> Result<Vec<u8>, Withheld> {
    let masked = match form {
        Form::Json => mask.json(plain).map(std::borrow::Cow::into_owned),
        Form::Urlencoded => mask.form(plain),
    };
    let masked = masked.map_err(|_| Withheld::Unreadable)?;
    // The masked body may be longer than the original.
    if masked.len() as u64 > LONGEST { Err(Withheld::Long) } else { Ok(masked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_never_exceeded_and_comes_back() {
        let budget = Budget::default();
        assert!(budget.take(60, 100) && budget.take(40, 100));
        assert!(!budget.take(1, 100) && !budget.take(u64::MAX, 100));
        budget.0.fetch_sub(40, Ordering::Relaxed);
        assert!(budget.take(40, 100) && !budget.take(1, 100));
    }

    #[test]
    fn only_what_says_what_it_is_may_be_masked() {
        for (value, expected) in [
            ("application/json", Some(Form::Json)),
            ("application/problem+json; charset=utf-8", Some(Form::Json)),
            ("Application/X-WWW-Form-Urlencoded; charset=utf-8", Some(Form::Urlencoded)),
            ("text/plain", None),
            ("application/xml", None),
            ("multipart/form-data; boundary=a", None),
        ] {
            let mut headers = Headers::new();
            headers.push("content-type", value.as_bytes());
            assert_eq!(form(&headers), expected, "{value}");
        }
        assert_eq!(form(&Headers::new()), None);
    }
}
