//! Forms a text can have to have, and what is wrong with one that has not.

use crate::units;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Name of an API, upstream, auth, plan, consumer or operation.
    Name,
    /// `15s`.
    Duration,
    /// `15s`, more than nothing.
    PositiveDuration,
    /// `64KiB`.
    Size,
    /// `100/s`.
    Rate,
    /// `127.0.0.1:8080`.
    Address,
    /// `10.0.0.0/8`.
    Network,
    /// `http://host:port`.
    Target,
    /// A host name, perhaps with `*.` in front.
    Host,
    /// A header name.
    Header,
    /// A header name that may be set or removed.
    EditableHeader,
    /// A header value.
    HeaderValue,
    /// A query parameter's name.
    Parameter,
    /// `get`.
    Method,
    /// `/a/b`.
    Base,
    /// `/a/{b}`.
    Path,
    /// `sha256:…`.
    KeyHash,
    /// `https://app.example.com`.
    Origin,
    /// `RS256`.
    Algorithm,
    /// `Europe/Berlin`.
    Zone,
    /// Base64.
    Base64,
    /// An XML name.
    XmlName,
    /// A CEL expression.
    Cel,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Code of the finding.
    pub(crate) code: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: Option<String>,
}

impl Form {
    /// What it takes, for messages and the reference.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Name => "a name",
            Self::Duration => "a time (`15s`)",
            Self::PositiveDuration => "a time above zero (`15s`)",
            Self::Size => "a size (`64KiB`)",
            Self::Rate => "a rate (`100/s`)",
            Self::Address => "an address with port (`127.0.0.1:8080`)",
            Self::Network => "a network or address (`10.0.0.0/8`)",
            Self::Target => "a target (`http://127.0.0.1:8688`)",
            Self::Host => "a host name (`api.example.com`)",
            Self::Header | Self::EditableHeader => "a header name",
            Self::HeaderValue => "a header value",
            Self::Parameter => "a parameter name",
            Self::Method => "a method (`get`)",
            Self::Base => "a base path (`/orders/v1`)",
            Self::Path => "a path (`/x/{id}`)",
            Self::KeyHash => "the hash of a key (`sha256:` and 64 hexadecimal digits)",
            Self::Origin => "an origin (`https://app.example.com`)",
            Self::Algorithm => "an algorithm (`RS256`)",
            Self::Zone => "a time zone (`Europe/Berlin`)",
            Self::Base64 => "Base64",
            Self::XmlName => "an XML name",
            Self::Cel => "a CEL expression",
        }
    }

    /// Pattern for the JSON Schema, where one says most of it.
    pub(crate) fn pattern(self) -> Option<&'static str> {
        Some(match self {
            Self::Name => r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
            Self::Duration | Self::PositiveDuration => {
                r"^(0|([0-9]+(\.[0-9]+)? *(us|µs|ms|s|m|min|h|d))+)$"
            }
            Self::Size => r"^[0-9]+(\.[0-9]+)? *(B|kB|KB|MB|GB|KiB|MiB|GiB|TiB)$",
            Self::Rate => r"^[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day)$",
            Self::Target => r"^https?://[^/?#]+/?$",
            Self::Header | Self::EditableHeader => "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
            Self::Base | Self::Path => "^/",
            Self::KeyHash => "^sha256:[0-9a-fA-F]{64}$",
            Self::Origin => r"^(\*|https?://[^/]+)$",
            _ => return None,
        })
    }

    /// Checks a text.
    pub(crate) fn check(self, text: &str) -> Result<(), Fault> {
        match self {
            Self::Name => form::name(text),
            Self::Duration => form::unit(self, units::duration(text).map(|_| ()), text),
            Self::PositiveDuration => {
                form::unit(self, units::duration(text).map(|_| ()), text)?;
                if units::duration(text).is_ok_and(|d| d.is_zero()) {
                    return Err(Fault::value("this time must be above zero"));
                }
                Ok(())
            }
            Self::Size => form::unit(self, units::size(text).map(|_| ()), text),
            Self::Rate => form::unit(self, units::rate(text).map(|_| ()), text),
            Self::Address => form::address(text),
            Self::Network => network(text).map(|_| ()).ok_or_else(|| {
                Fault::value("this is no network").help("for example `10.0.0.0/8` or `::1`")
            }),
            Self::Target => crate::resolve::target(text).map(|_| ()),
            Self::Host => form::host(text),
            Self::Header => form::header(text, false),
            Self::EditableHeader => form::header(text, true),
            Self::HeaderValue => form::header_value(text),
            Self::Parameter if text.is_empty() => Err(Fault::value("a parameter name is empty")),
            Self::Method => form::method(text),
            Self::Base => crate::resolve::base(text).map(|_| ()),
            Self::Path => crate::resolve::pattern(text).map(|_| ()),
            Self::KeyHash => form::key_hash(text),
            Self::Origin => form::origin(text),
            Self::Algorithm => crate::resolve::algorithm(text).map(|_| ()),
            Self::Zone => jiff::tz::TimeZone::get(text).map(|_| ()).map_err(|_| {
                Fault::value(format!("`{text}` is no known time zone"))
                    .help("an IANA name such as `UTC` or `Europe/Berlin`")
            }),
            Self::Base64 => form::base64(text),
            Self::XmlName if !crate::config::is_xml_name(text) => {
                Err(Fault::value(format!("`{text}` is no XML name")))
            }
            Self::Parameter | Self::XmlName | Self::Cel => Ok(()),
        }
    }
}

impl Fault {
    /// A value that is not accepted.
    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self { code: crate::finding::codes::BAD_VALUE, message: message.into(), help: None }
    }

    /// With another code.
    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Says what would be right.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// `10.0.0.0/8`, or an address that stands for itself.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// The checks that are short enough to stand together.
mod form {
    use super::{Fault, Form, IpAddr, SocketAddr, units};
    use crate::finding::codes;
    use base64::prelude::{BASE64_STANDARD, Engine};

    /// Headers that frame a message or belong to one connection: weir alone decides about them.
    const FRAMING: &[&str] = &[
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
    ];

    pub(super) fn name(text: &str) -> Result<(), Fault> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if !text.is_empty()
            && text.len() <= 64
            && text.bytes().all(fits)
            && !text.starts_with(['-', '.'])
        {
            return Ok(());
        }
        Err(Fault::value(format!("`{text}` cannot be a name"))
            .help("names are made of up to 64 letters, digits, `_`, `-` and `.`"))
    }

    pub(super) fn unit(
        form: Form,
        result: Result<(), units::Fault>,
        text: &str,
    ) -> Result<(), Fault> {
        let (what, units, unit) = match form {
            Form::Size => ("size", "`B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`", "KiB"),
            Form::Rate => ("rate", "`/s`, `/min`, `/h`, `/d`", "/s"),
            _ => ("time", "`ms`, `s`, `m`, `h`, `d`", "s"),
        };
        result.map_err(|fault| match fault {
            units::Fault::NoUnit => Fault::value(format!("a {what} needs a unit"))
                .code(codes::MISSING_UNIT)
                .help(format!("write `{text}{unit}`; units are {units}")),
            units::Fault::Unit => Fault::value(format!("`{text}` has no known unit"))
                .help(format!("units of a {what} are {units}")),
            units::Fault::Number => Fault::value(format!("`{text}` is no {what}"))
                .help(format!("{} is written so", form.describe())),
        })
    }

    pub(super) fn address(text: &str) -> Result<(), Fault> {
        if text.parse::<SocketAddr>().is_ok() {
            return Ok(());
        }
        let fault = Fault::value(format!("`{text}` is no address with a port"));
        Err(if let Some(port) = text.strip_prefix(':').filter(|p| p.parse::<u16>().is_ok()) {
            fault.help(format!("write `0.0.0.0:{port}` for every IPv4 address of this machine"))
        } else if let Ok(address) = text.parse::<IpAddr>() {
            fault.help(match address {
                IpAddr::V4(_) => format!("add the port: `{address}:8080`"),
                IpAddr::V6(_) => format!("add the port: `\"[{address}]:8080\"`"),
            })
        } else if text.starts_with("localhost:") {
            fault.help(format!("write `127.0.0.1:{}`", &text["localhost:".len()..]))
        } else if text.parse::<u16>().is_ok() {
            fault.help(format!(
                "write `0.0.0.0:{text}`, or `127.0.0.1:{text}` for this machine only"
            ))
        } else {
            fault.help("an IP address and a port, for example `0.0.0.0:8080` or `\"[::]:8080\"`")
        })
    }

    pub(super) fn host(text: &str) -> Result<(), Fault> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        if name.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(());
        }
        let label = |l: &str| {
            !l.is_empty()
                && l.len() <= 63
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        if !name.is_empty() && name.len() <= 253 && name.split('.').all(label) {
            return Ok(());
        }
        let fault = Fault::value(format!("`{text}` is no host name"));
        Err(if text.contains("://") {
            fault.help("only the name: without scheme, port and path")
        } else if text.contains(':') {
            fault.help("without the port: every listener serves it")
        } else if text.contains('*') {
            fault.help("`*` stands only in front: `*.example.com`")
        } else {
            fault.help("for example `api.example.com` or `*.example.com`")
        })
    }

    pub(super) fn header(text: &str, editable: bool) -> Result<(), Fault> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if text.is_empty() || text.len() > 256 || !text.bytes().all(token) {
            return Err(Fault::value(format!("`{text}` is no header name"))
                .code(codes::BAD_HEADER)
                .help("letters, digits and any of !#$%&'*+-.^_`|~"));
        }
        let lower = text.to_ascii_lowercase();
        if editable && FRAMING.contains(&lower.as_str()) {
            let fault = Fault::value(format!("`{text}` cannot be edited")).code(codes::BAD_HEADER);
            return Err(if lower == "host" {
                fault.help("say what the upstream gets with `proxy: {host: …}`")
            } else {
                fault.help("it frames the message or belongs to one connection: weir decides")
            });
        }
        Ok(())
    }

    pub(super) fn header_value(text: &str) -> Result<(), Fault> {
        if text.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7f) {
            return Err(Fault::value("a header value holds a control character")
                .code(codes::BAD_HEADER)
                .help("line breaks and other control characters cannot stand in a header"));
        }
        if text.trim() != text || text.len() > 16 * 1024 {
            return Err(Fault::value("a header value begins or ends with a space, or is too long")
                .code(codes::BAD_HEADER));
        }
        Ok(())
    }

    pub(super) fn method(text: &str) -> Result<(), Fault> {
        if !text.is_empty()
            && text.len() <= 32
            && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
        {
            if text.eq_ignore_ascii_case("connect") || text.eq_ignore_ascii_case("trace") {
                return Err(Fault::value(format!("weir does not serve `{text}`")));
            }
            return Ok(());
        }
        Err(Fault::value(format!("`{text}` is no method")).help("for example `get` or `post`"))
    }

    pub(super) fn key_hash(text: &str) -> Result<(), Fault> {
        let digits = text.strip_prefix("sha256:");
        if digits.is_some_and(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit())) {
            return Ok(());
        }
        // The text may be the key itself: it is not repeated.
        Err(Fault::value("this is not the hash of a key")
            .help("`weir key new` makes a key and prints its hash; only the hash stands here"))
    }

    pub(super) fn origin(text: &str) -> Result<(), Fault> {
        if text == "*" {
            return Ok(());
        }
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let fault = Fault::value(format!("`{text}` is no origin"));
        match rest {
            Some(host) if !host.is_empty() && !host.contains(['/', '*', ' ']) => Ok(()),
            Some(_) => {
                Err(fault.help("scheme, host and port only: no path, no slash at the end, no `*`"))
            }
            None => Err(fault.help(format!("with its scheme: `https://{text}`"))),
        }
    }

    pub(super) fn base64(text: &str) -> Result<(), Fault> {
        let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        BASE64_STANDARD
            .decode(packed)
            .map(|_| ())
            .map_err(|_| Fault::value("this is not Base64").help("standard alphabet, with padding"))
    }
}
