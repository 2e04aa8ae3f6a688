//! Feeders of a scenario: rows of values for `${feeder.column}`.

use super::body::Bodies;
use super::fields::{SCALARS, count, parsed, valid, word};
use super::grpc::Schemas;
use super::texts::{self, Known};
use crate::bounded_file;
use crate::feeder::generator::{self, Column as GeneratedColumn, Options};
use crate::feeder::{Algorithm, CsvFile, FeederError, JsonLines, Table, Tokens};
use crate::program::{Feeder, FeederId, Program, Share, Step};
use serde_json::Value;
use serde_json_path::JsonPath;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, Fault, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::format::Format;
use weir_document::shape::{Group, Kind, Names, format};
use weir_document::units;

settings! {
    /// Rows of values, one per iteration.
    pub(super) struct FeederKeys is "a feeder" {
        /// A file with the names of the columns in its first line.
        csv = by_hand(Kind::Either(&[Kind::Text, Kind::Object(Csv::SHAPE)])),
        /// Signed tokens in a column `token`.
        jwt = by_hand(Kind::Object(Jwt::SHAPE)),
        /// A file with a JSON object in each line.
        jsonl = by_hand(Kind::Either(&[Kind::Text, Kind::Object(Jsonl::SHAPE)])),
        /// Rows that are generated before the load.
        generate = by_hand(Kind::Object(Generate::SHAPE)),
        /// Start again after the last row; otherwise the user ends.
        at_end = text(Kind::Enum(&["recycle", "stop"]))
            .absent("`recycle`; `stop` with `order: unique`"),
        /// Scope of the read position.
        share: Share = word().default("all"),
        /// One row after the other, a random row each time, or each row at most once in a round.
        order: Order = word().default("sequential"),
    },
    groups: &[Group { keys: &["csv", "jsonl", "jwt", "generate"], required: true }],
    misspellings: &[("random", "write `order: random`"), ("file", "write `csv:` or `jsonl:`")],
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum Order {
    Sequential,
    Random,
    Unique,
}

/// A delimiter of values.
const DELIMITER: Format =
    Format::new("one character (`;`, or `\"\\t\"`)", |text| match text.chars().count() {
        1 => Ok(()),
        _ => Err(Fault::value(format!("`{text}` is not one character, such as `;` or `\"\\t\"`"))),
    })
    .pattern("^.$");

settings! {
    /// A CSV file (RFC 4180).
    struct Csv for CsvFile is "a file of rows" {
        /// The file.
        file = text(Kind::Text).required(),
        /// Names of the columns.
        columns: Vec<String> = texts(Kind::List(&Kind::Format(format::NAME))).absent("the first line"),
        /// Delimiter of values.
        delimiter: String = value(Kind::Format(DELIMITER), |node| node.text().map(str::to_owned)).default(","),
        /// Values may be quoted.
        quoted: bool = boolean().name("quotes").default("true"),
    }
    given { path: PathBuf, skip_first: bool }
}

settings! {
    /// A file with a JSON object in each line.
    struct Jsonl is "a file of objects" {
        /// The file.
        file = text(Kind::Text).required(),
        /// Names of columns and the paths of their values.
        columns = by_hand(Kind::Table(Names::Name, &Kind::Format(format::JSON_PATH))),
    }
}

settings! {
    /// Rows that are generated before the load.
    struct Generate is "generated rows" {
        /// Number of rows.
        rows: Option<u32> = count().required(),
        /// Seed of the random numbers.
        seed: u64 = integer(0, u64::MAX).default("1"),
        /// The columns.
        columns = by_hand(Kind::Table(Names::Name, &Kind::Object(Column::SHAPE))).required(),
    }
}

settings! {
    /// A column of generated values.
    struct Column for Options is "a column" {
        /// `sequence`: numbers in steps; `number`: random numbers; `name`: full names of people;
        /// `date`: random dates; `uuid`: random UUIDs; `choice`: one of `of`.
        kind = text(Kind::Enum(&["sequence", "number", "name", "date", "uuid", "choice"])).required(),
        /// First number or date (`2026-01-31`).
        from = by_hand(Kind::Scalar).absent("1"),
        /// Last number or date.
        to = by_hand(Kind::Scalar),
        /// Step of a sequence.
        step: u64 = integer(1, 1_000_000_000).default("1"),
        /// Distribution of random numbers: `normal` and `exponential` have their mean in the middle
        /// of `from` and `to`, before numbers beyond these limits become the limit.
        distribution: generator::Distribution = word().default("uniform"),
        /// Digits after the decimal point of random numbers.
        decimals: u32 = integer(0, 9).default("0"),
        /// Values of a choice.
        of: Vec<String> = texts(SCALARS),
        /// Text before the value.
        prefix: Option<String> = text(Kind::Scalar),
    }
}

settings! {
    /// Signed tokens (RFC 7519), created before the load.
    struct Jwt for Tokens is "tokens" {
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

/// Largest file of a signing key.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// Values shared by all cells.
pub(super) struct Shared<'s> {
    pub(super) folder: &'s Path,
    /// Rows by the feeder's name and description.
    tables: BTreeMap<(String, String), Table>,
    /// Feeders of programs: cells with the same variables share them.
    feeders: Vec<Arc<Feeder>>,
    /// Bodies by their description.
    pub(super) bodies: Bodies,
    /// Schemas of gRPC by their description.
    pub(super) schemas: Schemas,
    /// Files required by servers.
    pub(super) files: BTreeMap<PathBuf, String>,
    /// A feeder signs tokens with a key that was generated for it.
    pub(super) generates_keys: bool,
}

impl<'s> Shared<'s> {
    pub(super) fn new(folder: &'s Path) -> Self {
        Self {
            folder,
            tables: BTreeMap::new(),
            feeders: Vec::new(),
            bodies: Bodies::default(),
            schemas: Schemas::default(),
            files: BTreeMap::new(),
            generates_keys: false,
        }
    }

    /// The feeder, or an equal existing one.
    fn shared_feeder(&mut self, feeder: Feeder) -> Arc<Feeder> {
        let known = self.feeders.iter().find(|known| ***known == feeder).cloned();
        known.unwrap_or_else(|| {
            let feeder = Arc::new(feeder);
            self.feeders.push(feeder.clone());
            feeder
        })
    }
}

/// The feeders and the variables of their columns.
pub(super) fn feeders(
    root: &Fields<'_>,
    shared: &mut Shared<'_>,
    known: &mut Known,
    program: &mut Program,
    report: &mut Diagnostics,
) {
    for member in root.members("feeders") {
        let Some(table) = table(&member.key, &member.value, shared, report) else { continue };
        let keys = FeederKeys::read(&Fields::new(&member.value, FeederKeys::SHAPE));
        let variables = table
            .columns
            .iter()
            .map(|column| texts::add_variable(known, program, &format!("{}.{column}", member.key)))
            .collect();
        let unique = keys.order == Order::Unique;
        let at_end = member.value.get("at_end").and_then(Node::text);
        let stop = at_end.map_or(unique, |at_end| at_end == "stop");
        if unique && (!stop || keys.share != Share::All) {
            report
                .error(codes::CONFLICT, member.at, "each row is used at most once in a round")
                .help("omit `at_end` and `share`, or `order: unique`");
        }
        let feeder = Feeder {
            name: member.key.clone(),
            variables,
            rows: table.rows.clone(),
            recycle: !stop,
            stop_user: stop,
            share: keys.share,
            random: keys.order == Order::Random,
            file: None,
        };
        program.feeders.push(shared.shared_feeder(feeder));
    }
}

/// The rows of a feeder, created or read once.
fn table<'s>(
    name: &str,
    feeder: &Node,
    shared: &'s mut Shared<'_>,
    report: &mut Diagnostics,
) -> Option<&'s Table> {
    let key = (name.to_owned(), feeder.to_json().unwrap_or_default());
    if !shared.tables.contains_key(&key) {
        let fields = Fields::new(feeder, FeederKeys::SHAPE);
        let table = if let Some(jwt) = fields.object("jwt", Jwt::SHAPE) {
            tokens(&jwt, shared)
        } else if let Some(generate) = fields.object("generate", Generate::SHAPE) {
            generated(&generate).map_err(|error| error.to_string())
        } else if let Some(jsonl) = fields.get("jsonl") {
            json_lines(jsonl, shared.folder).read().map_err(|error| error.to_string())
        } else {
            csv(fields.get("csv")?, shared.folder).read().map_err(|error| error.to_string())
        };
        shared.tables.insert(key.clone(), valid(table, feeder, report)?);
    }
    shared.tables.get(&key)
}

fn csv(node: &Node, folder: &Path) -> CsvFile {
    if let Some(file) = node.text() {
        return CsvFile::new(folder.join(file));
    }
    let fields = Fields::new(node, Csv::SHAPE);
    Csv::read(&fields, folder.join(fields.text("file").unwrap_or_default()), false)
}

fn json_lines(node: &Node, folder: &Path) -> JsonLines {
    if let Some(file) = node.text() {
        return JsonLines { path: folder.join(file), columns: Vec::new() };
    }
    let fields = Fields::new(node, Jsonl::SHAPE);
    let columns = fields.members("columns").iter().filter_map(|member| {
        // The format of the key is checked.
        Some((member.key.clone(), JsonPath::parse(member.value.text()?).ok()?))
    });
    JsonLines {
        path: folder.join(fields.text("file").unwrap_or_default()),
        columns: columns.collect(),
    }
}

fn generated(fields: &Fields<'_>) -> Result<Table, FeederError> {
    let keys = Generate::read(fields);
    let columns = fields.members("columns").iter().map(|member| {
        let column = Fields::new(&member.value, Column::SHAPE);
        let (from, to) = (column.text("from"), column.text("to"));
        let kind = GeneratedColumn::new(
            column.text("kind").unwrap_or_default(),
            (from, to),
            Column::read(&column),
        );
        kind.map(|kind| (member.key.clone(), kind))
            .map_err(|reason| FeederError::Column { name: member.key.clone(), reason })
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    generator::table(&columns, keys.rows.unwrap_or(1), keys.seed)
}

fn tokens(jwt: &Fields<'_>, shared: &mut Shared<'_>) -> Result<Table, String> {
    let read = |file: &str| {
        let path = shared.folder.join(file);
        bounded_file::read_text(&path, MAX_KEY_BYTES).map_err(|error| error.to_string())
    };
    let key = jwt.text("key").map(read).transpose()?;
    shared.generates_keys |= key.is_none();
    let claims = match jwt.get("claims").and_then(|node| node.to_json().ok()) {
        Some(json) => match serde_json::from_str(&json) {
            Ok(Value::Object(claims)) => claims,
            _ => return Err("`claims` is a mapping".to_owned()),
        },
        None => serde_json::Map::new(),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let key = key.map(|text| text.trim_end_matches(['\r', '\n']).to_owned());
    let tokens: Tokens = Jwt::read(jwt, jwt.number("count", 1), key, claims, now.as_secs());
    let signed = tokens.sign().map_err(|error| error.to_string())?;
    if let Some(file) = jwt.text("jwks") {
        shared.files.insert(shared.folder.join(file), signed.jwks.to_string());
    }
    Ok(signed.table)
}

/// All texts of a node, keys included: those of a body of JSON are texts as well.
fn each_text(node: &Node, visit: &mut dyn FnMut(&str)) {
    for member in node.members().unwrap_or_default() {
        visit(&member.key);
        each_text(&member.value, visit);
    }
    node.items().unwrap_or_default().iter().for_each(|item| each_text(item, visit));
    visit(node.text().unwrap_or_default());
}

/// Consumes a row of each feeder used by these requests.
pub(super) fn feed(requests: &[Node], program: &Program) -> Vec<Step> {
    let mut mentioned = vec![false; program.feeders.len()];
    let mut mention = |text: &str| {
        for name in texts::names(text) {
            let feeder = name.split_once('.').map(|(feeder, _)| feeder);
            for (known, mentioned) in program.feeders.iter().zip(&mut mentioned) {
                *mentioned |= feeder == Some(known.name.as_str());
            }
        }
    };
    requests.iter().for_each(|request| each_text(request, &mut mention));
    let ids = mentioned.iter().enumerate().filter(|(_, mentioned)| **mentioned);
    ids.map(|(index, _)| Step::Feed(FeederId(u32::try_from(index).unwrap_or(u32::MAX)))).collect()
}
