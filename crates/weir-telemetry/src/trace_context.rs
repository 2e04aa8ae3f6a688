//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): `traceparent` and `tracestate`.
//!
//! If weir records no span of a request, a valid `traceparent` is forwarded unchanged, so that the
//! span of the client is the parent of that of the upstream. Without a valid one weir starts a
//! trace, marked as sampled unless weir itself samples: upstreams that follow the decision of their
//! parent would otherwise stop tracing behind weir.

use crate::hex;
use weir_wire::{Headers, Known};

/// Length of a version 00 `traceparent`: `00-<32>-<16>-<2>`.
const LENGTH: usize = 55;

/// Ids of a span and of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Id of the trace.
    pub trace: u128,
    /// Id of the span.
    pub span: u64,
}

/// The trace a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    text: [u8; LENGTH],
}

impl TraceContext {
    /// Continues the trace of the headers, or starts one, and sets the headers.
    ///
    /// An invalid or repeated `traceparent` is replaced, and `tracestate`, which depends on it, is
    /// dropped then. A new trace gets the flag `sampled`.
    pub fn establish(headers: &mut Headers, sampled: bool) -> Self {
        if !headers.may_have(Known::Traceparent) && !headers.may_have(Known::Tracestate) {
            let context = Self::start(sampled);
            headers.push_known(Known::Traceparent, &context.text);
            return context;
        }
        let context = Self::of(headers).map(|context| {
            let as_it_came = headers.known(Known::Traceparent) == Some(&context.text[..]);
            (context, as_it_came)
        });
        match context {
            Some((context, true)) => context,
            // A later version, of which only the fields of version 00 are used.
            Some((context, false)) => {
                headers.set("traceparent", &context.text);
                context
            }
            None => {
                let context = Self::start(sampled);
                headers.remove("tracestate");
                headers.remove("traceparent");
                headers.push_known(Known::Traceparent, &context.text);
                context
            }
        }
    }

    /// The trace of the headers, if they have a valid one.
    pub fn of(headers: &Headers) -> Option<Self> {
        if !headers.may_have(Known::Traceparent) {
            return None;
        }
        let mut values = headers.known_all(Known::Traceparent);
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value),
            _ => None,
        }
    }

    /// A new trace with random ids.
    pub fn start(sampled: bool) -> Self {
        // Zero is the one invalid id.
        Self::new(fastrand::u128(..).max(1), fastrand::u64(..).max(1), sampled.into())
    }

    /// A span of a trace, with the flags of the trace.
    pub fn new(trace: u128, parent: u64, flags: u8) -> Self {
        let mut text = [b'-'; LENGTH];
        text[..2].copy_from_slice(b"00");
        text[3..19].copy_from_slice(&hex::digits((trace >> 64) as u64));
        text[19..35].copy_from_slice(&hex::digits(trace as u64));
        text[36..52].copy_from_slice(&hex::digits(parent));
        text[53..].copy_from_slice(&hex::digits(flags.into())[14..]);
        Self { text }
    }

    /// Reads a `traceparent` value.
    ///
    /// Version `ff`, upper case, zero ids and anything after a version 00 value are invalid; of a
    /// later version only the part that version 00 defines is kept (section 3.2.4 of the standard
    /// asks for that).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_first_chunk::<LENGTH>()?;
        let version = &head[..2];
        let well_formed = [2, 35, 52].iter().all(|&at| head[at] == b'-')
            && [version, &head[3..35], &head[36..52], &head[53..]]
                .iter()
                .all(|part| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        let ids = head[3..35].iter().any(|&b| b != b'0') && head[36..52].iter().any(|&b| b != b'0');
        let ending = match version {
            b"00" => rest.is_empty(),
            b"ff" => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !(well_formed && ids && ending) {
            return None;
        }
        let mut text = *head;
        if version != b"00" {
            text[..2].copy_from_slice(b"00");
            // Bits that version 00 does not define must be zero when sent.
            let sampled = matches!(text[54], b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f');
            text[53..].copy_from_slice(if sampled { b"01" } else { b"00" });
        }
        Some(Self { text })
    }

    /// The value of `traceparent`.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Id of the trace.
    pub fn trace(&self) -> u128 {
        self.number(3..35)
    }

    /// Id of the span that what has this context hangs below.
    pub fn parent(&self) -> u64 {
        self.number(36..52) as u64
    }

    /// Flags of the trace.
    pub fn flags(&self) -> u8 {
        self.number(53..55) as u8
    }

    /// Whether the sender records the trace.
    pub(crate) fn is_sampled(&self) -> bool {
        self.flags() & 1 == 1
    }

    fn number(&self, digits: std::ops::Range<usize>) -> u128 {
        let text = self.as_str().get(digits).unwrap_or_default();
        u128::from_str_radix(text, 16).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.push(name, value.as_bytes());
        }
        headers
    }

    #[test]
    fn a_valid_one_passes_with_its_state() {
        let mut headers = headers(&[("Traceparent", GOOD), ("tracestate", "a=1")]);
        let context = TraceContext::establish(&mut headers, true);
        assert_eq!(context.as_str(), GOOD);
        assert_eq!(context.trace(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.parent(), context.flags()), (0xb7ad_6b71_6920_3331, 1));
        assert_eq!(TraceContext::new(context.trace(), context.parent(), 1), context);
        assert_eq!(headers.get("traceparent"), Some(GOOD.as_bytes()));
        assert_eq!(headers.get("tracestate"), Some(&b"a=1"[..]));
    }

    #[test]
    fn an_absent_invalid_or_repeated_one_is_replaced_and_the_state_dropped() {
        let upper = GOOD.to_uppercase();
        let long = format!("{GOOD}-x");
        for fields in [
            &[("tracestate", "a=1")][..],
            &[("traceparent", "x"), ("tracestate", "a=1")],
            &[("traceparent", &upper), ("tracestate", "a=1")],
            &[("traceparent", &long), ("tracestate", "a=1")],
            &[("traceparent", GOOD), ("traceparent", GOOD), ("tracestate", "a=1")],
        ] {
            let mut headers = headers(fields);
            let context = TraceContext::establish(&mut headers, true);
            assert_ne!(context.as_str(), GOOD);
            assert!(headers.get_all("traceparent").eq([context.as_str().as_bytes()]));
            assert_eq!(headers.get("tracestate"), None, "{fields:?}");
        }
    }

    #[test]
    fn a_later_version_is_sent_on_as_version_zero() {
        let later = GOOD.replacen("00", "01", 1).replace("-01", "-07") + "-more";
        assert_eq!(
            TraceContext::parse(later.as_bytes()).map(|c| c.text),
            GOOD.as_bytes().try_into().ok()
        );
        let mut headers = headers(&[("traceparent", &later), ("tracestate", "a=1")]);
        TraceContext::establish(&mut headers, true);
        assert!(headers.get_all("traceparent").eq([GOOD.as_bytes()]));
        assert_eq!(headers.get("tracestate"), Some(&b"a=1"[..]));
    }

    #[test]
    fn invalid_values_are_refused() {
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        ] {
            assert_eq!(TraceContext::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn new_traces_are_valid_and_differ() {
        let (one, two) = (TraceContext::start(true), TraceContext::start(false));
        assert_eq!(TraceContext::parse(one.as_str().as_bytes()), Some(one));
        assert_ne!(one.trace(), two.trace());
        assert!(one.is_sampled() && !two.is_sampled());
    }

    proptest! {
        #[test]
        fn whatever_comes_one_valid_value_leaves(value in "[0-9a-fA-F-]{0,70}") {
            let mut headers = headers(&[("traceparent", &value)]);
            let context = TraceContext::establish(&mut headers, true);
            prop_assert_eq!(TraceContext::parse(context.as_str().as_bytes()), Some(context));
            prop_assert!(headers.get_all("traceparent").eq([context.as_str().as_bytes()]));
        }
    }
}
