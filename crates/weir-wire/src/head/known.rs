//! Names the data path looks at, recognised once so that later look-ups compare one byte.

macro_rules! known {
    ($($variant:ident = $name:literal,)+) => {
        /// A header name that weir itself looks at, or [`Known::Other`].
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
    TransferEncoding = "transfer-encoding",
    Upgrade = "upgrade",
    UserAgent = "user-agent",
    Vary = "vary",
    Via = "via",
    XForwardedFor = "x-forwarded-for",
    XForwardedHost = "x-forwarded-host",
    XForwardedProto = "x-forwarded-proto",
}

/// Longest known name, in bytes.
const LONGEST: usize = 30;

/// The known names, shortest first, and for each length where its names start and end.
struct ByLength {
    names: [(&'static str, Known); Known::ALL.len()],
    ranges: [(u8, u8); LONGEST + 1],
}

const fn sorted() -> ByLength {
    let mut names = [("", Known::Other); Known::ALL.len()];
    let mut ranges = [(0u8, 0u8); LONGEST + 1];
    let (mut filled, mut length) = (0, 0);
    while length <= LONGEST {
        let first = filled;
        let mut i = 0;
        while i < Known::ALL.len() {
            if Known::ALL[i].0.len() == length {
                names[filled] = Known::ALL[i];
                filled += 1;
            }
            i += 1;
        }
        ranges[length] = (first as u8, filled as u8);
        length += 1;
    }
    assert!(filled == Known::ALL.len(), "a known name is longer than LONGEST");
    ByLength { names, ranges }
}

static SORTED: ByLength = sorted();

impl Known {
    /// Recognises a name in any case.
    pub fn of(name: &[u8]) -> Self {
        let Some(&(first, end)) = SORTED.ranges.get(name.len()) else { return Self::Other };
        SORTED.names[first as usize..end as usize]
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map_or(Self::Other, |&(_, known)| known)
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
