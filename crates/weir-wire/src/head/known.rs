//! Header names that weir uses. They are recognised once; later lookups compare one byte.

macro_rules! known {
    ($($variant:ident = $name:literal,)+) => {
        /// A header name that weir uses, or [`Known::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            /// Any other name.
            Other,
            $(#[doc = concat!("`", $name, "`.")] $variant,)+
        }

        impl Known {
            const ALL: &'static [(&'static str, Known)] = &[$(($name, Known::$variant),)+];

            /// The name in lower case; empty for [`Known::Other`].
            pub fn name(self) -> &'static str {
                match self {
                    Known::Other => "",
                    $(Known::$variant => $name,)+
                }
            }
        }
    };
}

known! {
    Accept = "accept",
    AcceptEncoding = "accept-encoding",
    AccessControlRequestHeaders = "access-control-request-headers",
    AccessControlRequestMethod = "access-control-request-method",
    Authorization = "authorization",
    Connection = "connection",
    ContentEncoding = "content-encoding",
    ContentLength = "content-length",
    ContentType = "content-type",
    Cookie = "cookie",
    Date = "date",
    Etag = "etag",
    Expect = "expect",
    Forwarded = "forwarded",
    Host = "host",
    KeepAlive = "keep-alive",
    Origin = "origin",
    ProxyAuthenticate = "proxy-authenticate",
    ProxyAuthorization = "proxy-authorization",
    ProxyConnection = "proxy-connection",
    Range = "range",
    Server = "server",
    SetCookie = "set-cookie",
    Te = "te",
    Traceparent = "traceparent",
    Trailer = "trailer",
    Tracestate = "tracestate",
    TransferEncoding = "transfer-encoding",
    Upgrade = "upgrade",
    UserAgent = "user-agent",
    Vary = "vary",
    Via = "via",
    WeirTransactionId = "weir-transaction-id",
    XForwardedFor = "x-forwarded-for",
    XForwardedHost = "x-forwarded-host",
    XForwardedProto = "x-forwarded-proto",
}

/// Size of the hash table of names; a power of two.
const PLACES: usize = 128;

/// Slot of a name in the hash table, from its length and first two letters, ignoring case.
const fn place(name: &[u8]) -> usize {
    let (first, second) = ((name[0] | 0x20) as usize, (name[1] | 0x20) as usize);
    (6 * name.len() + 13 * first + second) % PLACES
}

/// Compares a name with a known one of the same length. Setting this bit maps upper-case letters to
/// lower case, and no other byte of a token to a letter or dash.
#[inline]
fn is_same(mut known: &[u8], mut name: &[u8]) -> bool {
    const CASE: u64 = u64::from_ne_bytes([0x20; 8]);
    while let (Some((a, rest)), Some((b, others))) =
        (known.split_first_chunk(), name.split_first_chunk())
    {
        if u64::from_ne_bytes(*a) != u64::from_ne_bytes(*b) | CASE {
            return false;
        }
        (known, name) = (rest, others);
    }
    known.iter().zip(name).all(|(a, b)| *a == b | 0x20)
}

/// The hash table; a collision fails the build.
static TABLE: [(&str, Known); PLACES] = {
    let mut table = [("", Known::Other); PLACES];
    let mut i = 0;
    while i < Known::ALL.len() {
        let at = place(Known::ALL[i].0.as_bytes());
        assert!(table[at].0.is_empty(), "two names share a place: choose other factors");
        table[at] = Known::ALL[i];
        i += 1;
    }
    table
};

impl Known {
    /// Bit in a set of names.
    #[inline]
    pub(crate) fn bit(self) -> u64 {
        const { assert!(Known::ALL.len() < 64, "more names than a set of bits has room for") };
        1 << self as u8
    }

    /// Recognises a name, ignoring case.
    pub fn of(name: &[u8]) -> Self {
        if name.len() < 2 {
            return Self::Other;
        }
        let (known, id) = TABLE[place(name)];
        if known.len() == name.len() && is_same(known.as_bytes(), name) { id } else { Self::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::Known;

    #[test]
    fn every_known_name_is_recognised_in_any_case() {
        for &(name, known) in Known::ALL {
            assert_eq!(Known::of(name.as_bytes()), known);
            assert_eq!(Known::of(name.to_uppercase().as_bytes()), known);
            assert_eq!(known.name(), name);
        }
        assert_eq!(Known::of(b"x-anything"), Known::Other);
        assert_eq!(Known::of(b""), Known::Other);
    }
}
