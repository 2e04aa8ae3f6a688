//! Formats of strings, as in JSON Schema: expected content and validation.

mod checks;
mod target;

pub use target::{Scheme, Target, target};

use crate::finding::Fault;
use ipnet::IpNet;
use serde_json_path::JsonPath;
use std::net::IpAddr;

/// A format of strings.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Expected content, for messages and the reference.
    pub description: &'static str,
    /// Pattern for the JSON Schema, where one describes most of the format.
    pub pattern: Option<&'static str>,
    check: fn(&str) -> Result<(), Fault>,
    /// Whether a malformed string may contain a secret.
    pub(crate) is_secret: fn(&str) -> bool,
    /// Whether a plain number is accepted if valid (`0`).
    pub(crate) accepts_number: bool,
}

impl Format {
    /// A format without a pattern and without secrets.
    pub const fn new(description: &'static str, check: fn(&str) -> Result<(), Fault>) -> Self {
        Self { description, pattern: None, check, is_secret: |_| false, accepts_number: false }
    }

    /// With a pattern for the JSON Schema.
    pub const fn pattern(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// Validates a string.
    pub fn check(&self, text: &str) -> Result<(), Fault> {
        (self.check)(text)
    }
}

const UNITS_OF_TIME: &str = r"^(0|([0-9]+(\.[0-9]+)? *(us|µs|ms|s|m|min|h|d))+)$";
const HEADER_PATTERN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// Name of an API, upstream, auth, plan or consumer.
pub const NAME: Format =
    Format::new("a name", checks::name).pattern(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$");
/// Name of an operation.
pub const OPERATION: Format = Format::new("the name of an operation", checks::operation);
/// `15s`.
pub const DURATION: Format = Format {
    accepts_number: true,
    ..Format::new("a duration (`15s`)", checks::duration).pattern(UNITS_OF_TIME)
};
/// `15s`, above zero.
pub const POSITIVE_DURATION: Format =
    Format::new("a duration above zero (`15s`)", checks::positive_duration).pattern(UNITS_OF_TIME);
/// `64KiB`.
pub const SIZE: Format = Format::new("a size (`64KiB`)", checks::size)
    .pattern(r"^[0-9]+(\.[0-9]+)? *(B|kB|KB|MB|GB|KiB|MiB|GiB|TiB)$");
/// `100/s`.
pub const RATE: Format = Format::new("a rate (`100/s`)", checks::rate)
    .pattern(r"^[0-9]+ */ *(s|sec|second|m|min|minute|h|hour|d|day)$");
/// `127.0.0.1:8080`.
pub const ADDRESS: Format = Format::new("an address with port (`127.0.0.1:8080`)", checks::address)
    .pattern(r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$");
/// `10.0.0.0/8`.
pub const NETWORK: Format = Format::new("a network or address (`10.0.0.0/8`)", |text| {
    let fault = || Fault::value("not a network").help("for example `10.0.0.0/8` or `::1`");
    network(text).map(|_| ()).ok_or_else(fault)
});
/// `http://host:port`.
pub const TARGET: Format = Format {
    // The URL may contain a password.
    is_secret: |text| text.contains('@'),
    ..Format::new("a target (`http://127.0.0.1:8688`, `unix:/run/app.sock`)", |text| {
        target(text).map(|_| ())
    })
    .pattern(r"^((srv\+)?https?://[^/?#]+/?|unix:/[^/].*)$")
};
/// A host name, possibly with a leading `*.`.
pub const HOST: Format = Format::new("a host name (`api.example.com`)", checks::host);
/// Name of a header.
pub const HEADER: Format =
    Format::new("a header name", |text| checks::header(text, false)).pattern(HEADER_PATTERN);
/// Name of a header that may be set or removed.
pub const EDITABLE_HEADER: Format =
    Format::new("a header name", |text| checks::header(text, true)).pattern(HEADER_PATTERN);
/// Value of a header.
pub const HEADER_VALUE: Format = Format::new("a header value", checks::header_value);
/// Name of a query parameter.
pub const PARAMETER: Format = Format::new("a parameter name", |text| match text {
    "" => Err(Fault::value("a parameter name is empty")),
    _ => Ok(()),
});
/// `get`.
pub const METHOD: Format = Format::new("a method (`get`)", checks::method);
/// `sha256:…`.
pub const KEY_HASH: Format = Format {
    // The user may have written the key in place of its hash.
    is_secret: |_| true,
    ..Format::new("the hash of a key (`sha256:` and 64 hexadecimal digits)", checks::key_hash)
        .pattern("^sha256:[0-9a-fA-F]{64}$")
};
/// `https://app.example.com`.
pub const ORIGIN: Format = Format::new("an origin (`https://app.example.com`)", checks::origin)
    .pattern(r"^(\*|https?://[^/]+)$");
/// `Europe/Berlin`.
pub const ZONE: Format = Format::new("a time zone (`Europe/Berlin`)", |text| {
    jiff::tz::TimeZone::get(text).map(|_| ()).map_err(|_| {
        Fault::value(format!("unknown time zone `{text}`"))
            .help("use an IANA name such as `UTC` or `Europe/Berlin`")
    })
});
/// Base64.
pub const BASE64: Format = Format::new("Base64", checks::base64);
/// `$.order.id` (RFC 9535).
pub const JSON_PATH: Format =
    Format::new("a JSONPath (`$.order.id`)", checks::json_path).pattern(r"^\$");
/// `5%`.
pub const PERCENT: Format =
    Format::new("a percentage (`5%`)", checks::percent).pattern(r"^[0-9]{1,3}(\.[0-9]{1,2})? *%$");
/// `app/index.html`.
pub const FILE_BELOW: Format =
    Format::new("a file below the folder (`app/index.html`)", checks::file_below);
/// `websocket`.
pub const PROTOCOL: Format = Format::new("a protocol (`websocket`)", checks::protocol);

/// `10.0.0.0/8`, or a single address.
pub fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// A JSONPath (RFC 9535).
///
/// # Errors
/// The problem, with the position of the character.
pub fn parse_json_path(text: &str) -> Result<JsonPath, String> {
    JsonPath::parse(text).map_err(|error| {
        format!(
            "`{text}` is not a path (RFC 9535): {} at character {}",
            error.message(),
            error.position()
        )
    })
}
