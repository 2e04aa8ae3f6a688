//! Keys of a scenario file: the mapping of the file, cases and feeders.

use super::fields::{SCALARS, count, pairs, parsed, word};
use super::load::Load;
use super::overrides::LEVELS;
use super::published::PublishedKeys;
use super::request::RequestKeys;
use super::settings::{BACKEND, Observe, PROTOCOL, Server, Target};
use crate::feeder::{Algorithm, CsvFile, Tokens};
use crate::program::Share;
use crate::protocol::CaseOrder;
use serde_json::Value;
use std::path::PathBuf;
use weir_document::settings;
use weir_document::shape::{Group, Kind, Names, format};
use weir_document::units;

settings! {
    /// Requests, target, load and measurement.
    pub(super) static ROOT is "a scenario" {
        /// Version of the format.
        lab = by_hand(Kind::Integer(1, 1)).required(),
        /// Name in reports.
        name = text(Kind::Text).absent("the file's"),
        /// The server under test.
        target = by_hand(Kind::Object(Target::SHAPE)).required(),
        /// How the server is started; without, the server is already running.
        server = by_hand(Kind::Object(Server::SHAPE)),
        /// The backend of the server.
        backend = by_hand(Kind::Object(&BACKEND)),
        /// Compared settings of the server.
        cases = object::<Cases>(),
        /// Values of the load: one cell for each combination. `${name}` is the value,
        /// `${name.bytes}` its size in bytes.
        matrix = by_hand(Kind::Table(Names::Name, &SCALARS)),
        /// Values for `${name}`.
        variables = pairs(Names::Name),
        /// Rows of values, one per iteration: `${name.column}`.
        feeders = by_hand(Kind::Table(Names::Name, &Kind::Object(FeederKeys::SHAPE))),
        /// Requests of an iteration, in this order.
        requests = by_hand(Kind::List(&Kind::Object(RequestKeys::SHAPE))).required(),
        /// The load; several loads run one after the other.
        load = by_hand(Kind::OneOrMany(&Kind::Object(Load::SHAPE))).required(),
        /// Measurement of a cell.
        protocol = by_hand(Kind::Object(&PROTOCOL)).absent("one run, nothing cut off"),
        /// Observed subjects during the load.
        observe = object::<Observe>(),
        /// Thresholds of the run: `p99<500ms for echo`, `error-rate<=0`, `rps>=1000`.
        thresholds = texts(Kind::List(&Kind::Text)),
        /// Published figures, printed beside the measured ones.
        published = by_hand(Kind::List(&Kind::Object(PublishedKeys::SHAPE))),
        /// Overrides of `--quick` and `--full`.
        levels = by_hand(Kind::Object(&LEVELS)),
    },
    misspellings: &[
        ("scenarios", "write `requests`"),
        ("request", "write `requests: [{…}]`"),
        ("executor", "write it in `load`"),
    ],
}

settings! {
    /// Compared settings of the server: one case for each combination of factors.
    pub(super) struct Cases is "the cases" {
        /// Factors and their levels.
        factors = by_hand(Kind::Table(Names::Name, &SCALARS)).required(),
        /// Settings of a case.
        apply = object::<Apply>().required(),
        /// Order of the rounds of the cases.
        pub(super) order: CaseOrder = word().default("interleaved"),
    }
}

settings! {
    /// Settings of a case.
    pub(super) struct Apply is "the settings of a case" {
        /// Settings of weir, as `weir serve --set` takes them.
        pub(super) set: Vec<(String, String)> = pairs(Names::Parameter),
        /// Environment of the server's command.
        pub(super) env: Vec<(String, String)> = pairs(Names::Name),
        /// Arguments added to the server's command.
        pub(super) args: Vec<String> = texts(SCALARS),
    }
}

settings! {
    /// Rows of values, one per iteration.
    pub(super) struct FeederKeys is "a feeder" {
        /// A file with the names of the columns in its first line.
        csv = by_hand(Kind::Either(&[Kind::Text, Kind::Object(Csv::SHAPE)])),
        /// Signed tokens in a column `token`.
        jwt = by_hand(Kind::Object(Jwt::SHAPE)),
        /// Start again after the last row; otherwise the user ends.
        pub(super) at_end: String = text(Kind::Enum(&["recycle", "stop"])).default("recycle"),
        /// Scope of the read position.
        pub(super) share: Share = word().default("all"),
        /// Random rows, each chosen independently.
        pub(super) random: bool = boolean().default("false"),
    },
    groups: &[Group { keys: &["csv", "jwt"], required: true }],
}

settings! {
    /// A CSV file (RFC 4180).
    pub(super) struct Csv for CsvFile is "a file of rows" {
        /// The file.
        file = text(Kind::Text).required(),
        /// Names of the columns.
        columns: Vec<String> = texts(Kind::List(&Kind::Format(format::NAME))).absent("the first line"),
        /// Delimiter of values.
        delimiter: char = value(Kind::Text, |node| node.text()?.chars().next()).default(","),
        /// Values may be quoted.
        quoted: bool = boolean().name("quotes").default("true"),
    }
    given { path: PathBuf, skip_first: bool }
}

settings! {
    /// Signed tokens (RFC 7519), created before the load.
    pub(super) struct Jwt for Tokens is "tokens" {
        /// Number of tokens.
        count = count::<u32>().required(),
        /// Signature algorithm.
        algorithm: Algorithm = value(Kind::Enum(&["RS256", "ES256", "HS256"]), parsed).default("RS256"),
        /// File with the private key (PEM, PKCS #8) or the shared secret.
        key = text(Kind::Text).absent("a generated key"),
        /// Output file for the key set, for the server.
        jwks = text(Kind::Text),
        /// `kid` in the head.
        key_id: String = text(Kind::Text).name("kid").default("lab"),
        /// Claims of all tokens; `sub`, `jti`, `iat` and `exp` are added.
        claims = by_hand(Kind::Json),
        /// Lifetime of the tokens.
        lifetime: u64 = value(Kind::Format(format::POSITIVE_DURATION), |node| {
            Some(units::duration(node.text()?).ok()?.as_secs())
        }).default("1d"),
    }
    given { count: u32, key: Option<String>, claims: serde_json::Map<String, Value>, now: u64 }
}
