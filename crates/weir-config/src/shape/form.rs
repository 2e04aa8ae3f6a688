//! Forms a text can have to have, and what is wrong with one that has not.

mod checks;
mod target;

pub(crate) use target::target;

use crate::finding::Fault;
use crate::units;
use ipnet::IpNet;
use std::net::IpAddr;

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Name of an API, upstream, auth, plan or consumer.
    Name,
    /// Name of an operation.
    Operation,
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
    /// `$.order.id`.
    JsonPath,
    /// `0.0004`.
    Price,
    /// `EUR`.
    Currency,
    /// `5%`.
    Percent,
    /// `app/index.html`.
    FileBelow,
    /// `websocket`.
    Protocol,
}

impl Form {
    /// What it takes, for messages and the reference.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Name => "a name",
            Self::Operation => "the name of an operation",
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
            Self::JsonPath => "a JSONPath (`$.order.id`)",
            Self::Price => "a price (`\"0.0004\"`)",
            Self::Currency => "a currency (`EUR`)",
            Self::Percent => "a share (`5%`)",
            Self::FileBelow => "a file below the folder (`app/index.html`)",
            Self::Protocol => "a protocol (`websocket`)",
        }
    }

    /// Pattern for the JSON Schema, where one says most of it.
    pub fn pattern(self) -> Option<&'static str> {
        Some(match self {
            Self::Name => r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
            Self::Duration | Self::PositiveDuration => {
                r"^(0|([0-9]+(\.[0-9]+)? *(us|µs|ms|s|m|min|h|d))+)$"
            }
            Self::Size => r"^[0-9]+(\.[0-9]+)? *(B|kB|KB|MB|GB|KiB|MiB|GiB|TiB)$",
            Self::Rate => r"^[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day)$",
            Self::Address => r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$",
            Self::Algorithm => "^((HS|RS|PS)(256|384|512)|ES256|ES384|EdDSA)$",
            Self::Target => r"^(srv\+)?https?://[^/?#]+/?$",
            Self::Header | Self::EditableHeader => "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
            Self::Base | Self::Path => "^/",
            Self::KeyHash => "^sha256:[0-9a-fA-F]{64}$",
            Self::JsonPath => r"^\$",
            Self::Price => r"^[0-9]{1,9}(\.[0-9]{1,8})?$",
            Self::Currency => "^[A-Z]{3}$",
            Self::Percent => r"^[0-9]{1,3}(\.[0-9]{1,2})? *%$",
            Self::Origin => r"^(\*|https?://[^/]+)$",
            _ => return None,
        })
    }

    /// Checks a text.
    pub fn check(self, text: &str) -> Result<(), Fault> {
        match self {
            Self::Name => checks::name(text),
            Self::Operation => checks::operation(text),
            Self::Duration => checks::unit(self, units::duration(text).map(|_| ()), text),
            Self::PositiveDuration => {
                checks::unit(self, units::duration(text).map(|_| ()), text)?;
                if units::duration(text).is_ok_and(|d| d.is_zero()) {
                    return Err(Fault::value("the time must be above zero"));
                }
                Ok(())
            }
            Self::Size => checks::unit(self, units::size(text).map(|_| ()), text),
            Self::Rate => checks::unit(self, units::rate(text).map(|_| ()), text),
            Self::Address => checks::address(text),
            Self::Network => network(text).map(|_| ()).ok_or_else(|| {
                Fault::value("not a network").help("for example `10.0.0.0/8` or `::1`")
            }),
            Self::Target => target(text).map(|_| ()),
            Self::Host => checks::host(text),
            Self::Header => checks::header(text, false),
            Self::EditableHeader => checks::header(text, true),
            Self::HeaderValue => checks::header_value(text),
            Self::Parameter if text.is_empty() => Err(Fault::value("a parameter name is empty")),
            Self::Method => checks::method(text),
            Self::Base => crate::path_pattern::base(text).map(|_| ()),
            Self::Path => crate::path_pattern::pattern(text).map(|_| ()),
            Self::KeyHash => checks::key_hash(text),
            Self::Origin => checks::origin(text),
            Self::Algorithm => crate::key_set::algorithm(text).map(|_| ()),
            Self::Zone => jiff::tz::TimeZone::get(text).map(|_| ()).map_err(|_| {
                Fault::value(format!("unknown time zone `{text}`"))
                    .help("use an IANA name such as `UTC` or `Europe/Berlin`")
            }),
            Self::Base64 => checks::base64(text),
            Self::XmlName if !crate::xml::is_qualified(text) => {
                Err(Fault::value(format!("`{text}` is not an XML name")))
            }
            Self::JsonPath => checks::json_path(text),
            Self::Price => checks::price(text),
            Self::Currency => checks::currency(text),
            Self::Percent => checks::unit(self, units::percent(text).map(|_| ()), text),
            Self::FileBelow => checks::file_below(text),
            Self::Protocol => checks::protocol(text),
            Self::Parameter | Self::XmlName | Self::Cel => Ok(()),
        }
    }
}

/// `10.0.0.0/8`, or an address that stands for itself.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}
