//! Bodies that are masked before they are recorded: held whole until they are over, within a
//! budget of the process, while their bytes go their way unchanged.

use crate::compress::Gzip;
use crate::exchange::Exchange;
use crate::worker::Worker;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_config::BodyMask;
use weir_journal::Withheld;
use weir_wire::{Headers, Known};

/// Longest body that is masked, whatever is stored of others: two of them are in one record, which
/// has to fit into a segment.
pub(super) const LONGEST: u64 = 4 << 20;
/// How many times its length a compressed body may have when it is decoded.
const EXPANSION: u64 = 8;

/// Bytes of bodies that are held, all workers together.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    /// Takes room for more bytes; false if there is none.
    fn take(&self, bytes: u64, limit: u64) -> bool {
        let taken = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}

/// What a body is, as far as masking has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Urlencoded,
}

/// A body that waits for its end.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// Bytes of the budget that it has.
    room: u64,
    form: Form,
    gzip: bool,
    worker: &'static Worker,
}

impl Held {
    /// For a body with these headers.
    ///
    /// # Errors
    /// It could not be masked anyway.
    pub(super) fn new(headers: &Headers, worker: &'static Worker) -> Result<Self, Withheld> {
        let form = form(headers).ok_or(Withheld::Unreadable)?;
        let gzip = match headers.known(Known::ContentEncoding) {
            None => false,
            Some(coding) if coding.eq_ignore_ascii_case(b"identity") => false,
            Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => true,
            Some(coding) if coding.eq_ignore_ascii_case(b"x-gzip") => true,
            Some(_) => return Err(Withheld::Coding),
        };
        Ok(Self { bytes: Vec::new(), room: 0, form, gzip, worker })
    }

    /// More of it has passed.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn add(&mut self, bytes: &[u8], budget: u64) -> Result<(), Withheld> {
        let needed = (self.bytes.len() + bytes.len()) as u64;
        if needed > self.room {
            // Twice as much, so that it does not move with every piece; less if there is no more.
            let shared = &self.worker.shared.capture.budget;
            let wanted = [needed.max(self.room * 2), needed];
            let got = wanted.into_iter().find(|room| shared.take(room - self.room, budget));
            self.room = got.ok_or(Withheld::Budget)?;
            self.bytes.reserve_exact(self.room as usize - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// All of it has passed: as it may be recorded, in the coding it came in.
    ///
    /// # Errors
    /// It is not what its headers say, or longer than `limit` allows.
    pub(super) fn masked(&self, mask: &BodyMask, limit: u64) -> Result<Vec<u8>, Withheld> {
        if !self.gzip {
            return masked(self.form, &self.bytes, mask);
        }
        let most = limit.saturating_mul(EXPANSION);
        let mut plain = Vec::new();
        let mut decoder = MultiGzDecoder::new(self.bytes.as_slice()).take(most + 1);
        decoder.read_to_end(&mut plain).map_err(|_| Withheld::Coding)?;
        if plain.len() as u64 > most {
            return Err(Withheld::Long);
        }
        let masked = masked(self.form, &plain, mask)?;
        let (mut gzip, mut packed) = (Gzip::new(1), Vec::new());
        let written = gzip.write(&masked, &mut packed).and_then(|()| gzip.finish(&mut packed));
        written.map(|()| packed).map_err(|_| Withheld::Coding)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.worker.shared.capture.budget.0.fetch_sub(self.room, Ordering::Relaxed);
    }
}

/// What the headers say it is; none if that cannot be masked.
fn form(headers: &Headers) -> Option<Form> {
    if Exchange::is_json(headers) {
        return Some(Form::Json);
    }
    let value = headers.known(Known::ContentType)?;
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
    // What stands for a value may be longer than the value.
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
