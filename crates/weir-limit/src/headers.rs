//! Rate limit headers: `RateLimit-Policy` and `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers-10), and `Retry-After`.

use super::LimitStatus;
use weir_wire::Headers;

/// A limit as its headers name it.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// The name as a structured-field string, quotes included (RFC 8941 section 3.3.3).
    quoted: String,
    /// Requests in a window: the burst, or the quota.
    quantity: u64,
}

impl Policy {
    pub(super) fn new(name: &str, quantity: u64) -> Self {
        let mut quoted = String::with_capacity(name.len() + 2);
        quoted.push('"');
        for character in name.chars() {
            match character {
                '"' | '\\' => quoted.extend(['\\', character]),
                ' '..='~' => quoted.push(character),
                // Such a string is ASCII.
                _ => quoted.push('_'),
            }
        }
        quoted.push('"');
        Self { quoted, quantity }
    }

    /// Its name, quotes included.
    pub(super) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// Writes the headers, in place of any the upstream sent: a client can only heed one.
    pub(super) fn write(
        &self,
        limit_status: &LimitStatus,
        scratch: &mut Vec<u8>,
        headers: &mut Headers,
    ) {
        let mut digits = itoa::Buffer::new();
        // Not by `format_args!`: that took more than half as long again.
        let mut set = |field: &str, parameters: [(&[u8; 3], u64); 2]| {
            scratch.clear();
            scratch.extend_from_slice(self.quoted.as_bytes());
            for (name, value) in parameters {
                scratch.extend_from_slice(name);
                scratch.extend_from_slice(digits.format(value).as_bytes());
            }
            headers.set(field, scratch);
        };
        set("ratelimit-policy", [(b";q=", self.quantity), (b";w=", limit_status.window)]);
        set("ratelimit", [(b";r=", limit_status.remaining), (b";t=", limit_status.reset)]);
        if let Some(seconds) = limit_status.retry_after {
            headers.set("retry-after", digits.format(seconds).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_structured_strings() {
        assert_eq!(Policy::new("gold", 1).quoted, "\"gold\"");
        assert_eq!(Policy::new("a\"b\\c\né", 1).quoted, "\"a\\\"b\\\\c__\"");
    }

    #[test]
    fn headers_are_written_in_place_of_others() {
        let limit_status =
            LimitStatus { policy: 0, remaining: 50, reset: 30, window: 60, retry_after: Some(2) };
        let (mut headers, mut scratch) = (Headers::new(), b"left over".to_vec());
        headers.push("RateLimit", b"of the upstream");
        Policy::new("gold", 100).write(&limit_status, &mut scratch, &mut headers);
        let fields: Vec<_> =
            headers.iter().map(|(_, n, v)| (n, std::str::from_utf8(v).unwrap())).collect();
        assert_eq!(
            fields,
            [
                ("ratelimit-policy", "\"gold\";q=100;w=60"),
                ("ratelimit", "\"gold\";r=50;t=30"),
                ("retry-after", "2"),
            ]
        );
    }
}
