//! The value of the `Date` header.

use std::cell::RefCell;

/// The HTTP date of the current second.
#[derive(Debug, Default)]
pub struct DateCache(RefCell<(u64, String)>);

impl DateCache {
    /// Appends the date of this second since 1970.
    pub fn push(&self, unix: u64, out: &mut Vec<u8>) {
        let mut date = self.0.borrow_mut();
        if date.0 != unix {
            *date = (unix, http_date(unix));
        }
        out.extend_from_slice(date.1.as_bytes());
    }
}

/// IMF-fixdate (RFC 9110 section 5.6.7).
pub fn http_date(unix: u64) -> String {
    jiff::Timestamp::from_second(unix as i64)
        .ok()
        .and_then(|time| {
            let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
            printer.timestamp_to_rfc9110_string(&time).ok()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_in_the_form_of_http() {
        assert_eq!(super::http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
