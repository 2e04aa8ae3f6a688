//! Resolves a document to a [`Scenario`].

use super::body::Bodies;
use super::cells::{self, Combination};
use super::fields::{pairs_of, valid};
use super::keys::{Apply, Cases, Csv, FeederKeys, Jwt, ROOT};
use super::load::{self, Grouping, Load};
use super::request::{self, Context, RequestKeys};
use super::texts::{self, Known};
use super::{Cell, Level, Overrides, Scenario, Target, overrides, published, settings};
use crate::feeder::{CsvFile, Table, Tokens};
use crate::program::{Feeder, FeederId, Origin, Program, Step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use weir_document::check::check;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, Findings, codes};
use weir_document::shape::fields::Fields;

/// Values shared by all cells.
struct Shared<'s> {
    folder: &'s Path,
    /// Rows by the feeder's name and description.
    tables: BTreeMap<(String, String), Table>,
    /// Feeders of programs: cells with the same variables share them.
    feeders: Vec<Arc<Feeder>>,
    /// Bodies by their description.
    bodies: Bodies,
    /// Files required by servers.
    files: BTreeMap<PathBuf, String>,
}

impl Shared<'_> {
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

/// Reads a scenario from a text. `path` is used in findings, and relative files are resolved
/// against its folder.
///
/// # Errors
/// As [`super::load`].
pub fn load_text(
    path: &Path,
    text: &str,
    over: &Overrides,
) -> Result<(Scenario, Findings), Findings> {
    let mut document = overrides::read(path, text, over);
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found = None;
    if let Some(root) = document.root.take() {
        // Without its cases, their names are unknown.
        if over.target.is_none() {
            cells::check_only(&root, &mut document.report);
        }
        found = scenario(&root, path, folder, &mut document.report);
        let level = overrides::level_in(&root, over.level);
        let shortens = over.level == Level::Quick && level.is_none();
        found.iter_mut().filter(|_| shortens).for_each(overrides::shorten);
    }
    if found.is_none() && !document.report.has_errors() {
        document.report.error(codes::BAD_VALUE, None, "this scenario cannot be resolved");
    }
    let findings = document.findings();
    match found {
        Some(scenario) if !findings.has_errors() => Ok((scenario, findings)),
        _ => Err(findings),
    }
}

fn scenario(root: &Node, path: &Path, folder: &Path, report: &mut Diagnostics) -> Option<Scenario> {
    let combinations = cells::combinations(root, report);
    let mut shared = Shared {
        folder,
        tables: BTreeMap::new(),
        feeders: Vec::new(),
        bodies: Bodies::default(),
        files: BTreeMap::new(),
    };
    let mut cells = Vec::new();
    let mut first = None;
    for combination in &combinations {
        let Some(filled) = cells::fill_in(root, combination) else { continue };
        check(&filled, &ROOT, report);
        // Further cells would report the same findings.
        if report.has_errors() {
            return None;
        }
        let fields = Fields::new(&filled, &ROOT);
        cells.push(cell(&fields, combination, &mut shared, report)?);
        if report.has_errors() {
            return None;
        }
        first.get_or_insert(filled);
    }
    if first.is_none() && !combinations.is_empty() {
        let at = root.get("matrix").unwrap_or(root).at;
        report.error(codes::CONFLICT, at, "no cell has both a request and a load");
    }
    // Everything except the load is the same in all cells.
    let root = first?;
    let root = &Fields::new(&root, &ROOT);
    let name = root.text("name").map(str::to_owned);
    let name = name.or_else(|| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let (method, idle) = settings::protocol(root, report);
    Some(Scenario {
        name: name.unwrap_or_default(),
        target: settings::target(root)?,
        server: settings::server(root, folder),
        order: Cases::read(&root.object_or_empty("cases", Cases::SHAPE)).order,
        method,
        idle,
        observe: settings::observe(root, folder, report),
        thresholds: settings::thresholds(root, report),
        files: shared.files.into_iter().collect(),
        cells,
    })
}

fn cell(
    root: &Fields<'_>,
    combination: &Combination,
    shared: &mut Shared<'_>,
    report: &mut Diagnostics,
) -> Option<Cell> {
    let target = settings::target(root)?;
    let mut program = Program { insecure: target.insecure, ..Program::default() };
    let named = |list: &[(String, weir_document::draft::Scalar)]| {
        list.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect::<Vec<_>>()
    };
    let mut known = Known::default();
    known.constants.extend(root.get("variables").and_then(pairs_of).unwrap_or_default());
    feeders(root, shared, &mut known, &mut program, report);
    extracted(root, &mut known, &mut program, report);
    groups(root, &target, shared, &known, &mut program, report)?;
    let cases = root.object_or_empty("cases", Cases::SHAPE);
    let apply = Apply::read(&cases.object_or_empty("apply", Apply::SHAPE));
    Some(Cell {
        values: named(&combination.values),
        case: named(&combination.case),
        sets: apply.set,
        env: apply.env,
        args: apply.args,
        backend: settings::backend(root),
        published: published::published(root, combination, report),
        attributes: published::attributes(combination),
        program,
    })
}

/// Names of values extracted from responses.
fn extracted(
    root: &Fields<'_>,
    known: &mut Known,
    program: &mut Program,
    report: &mut Diagnostics,
) {
    for request in root.many("requests") {
        for member in Fields::new(request, RequestKeys::SHAPE).members("extract") {
            if known.constants.contains_key(&member.key) {
                let message = format!("`{}` is also one of `variables`", member.key);
                report.error(codes::DUPLICATE_NAME, member.at, message);
            }
            texts::add_variable(known, program, &member.key);
        }
    }
}

fn feeders(
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
        let stop = keys.at_end == "stop";
        let feeder = Feeder {
            name: member.key.clone(),
            variables,
            rows: table.rows.clone(),
            recycle: !stop,
            stop_user: stop,
            share: keys.share,
            random: keys.random,
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
        let table = match fields.object("jwt", Jwt::SHAPE) {
            Some(jwt) => tokens(&jwt, shared),
            None => csv(fields.get("csv")?, shared.folder).read().map_err(|e| e.to_string()),
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

fn tokens(jwt: &Fields<'_>, shared: &mut Shared<'_>) -> Result<Table, String> {
    let read = |file: &str| {
        let path = shared.folder.join(file);
        std::fs::read_to_string(&path)
            .map_err(|error| format!("`{}` cannot be read: {error}", path.display()))
    };
    let key = jwt.text("key").map(read).transpose()?;
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

fn groups(
    fields: &Fields<'_>,
    target: &Target,
    shared: &Shared<'_>,
    known: &Known,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<()> {
    let Ok((origin, _)) = Origin::parse(&target.base) else {
        let at = fields.get("target").map_or(fields.node().at, |node| node.at);
        report.error(codes::BAD_VALUE, at, format!("`{}` is not a base URL", target.base));
        return None;
    };
    let (folder, bodies) = (shared.folder, &shared.bodies);
    let context = Context { target, origin: &origin, folder, bodies, known };
    let requests = fields.many("requests");
    let mut steps = Vec::new();
    for node in requests {
        steps.push((node, request::steps(node, &context, program, report)?));
    }
    let loads = fields.many("load");
    for (index, node) in loads.iter().enumerate() {
        let number = if loads.len() > 1 { format!(" {}", index + 1) } else { String::new() };
        let load = Fields::new(node, Load::SHAPE);
        let grouping = Load::read(&load).groups;
        if grouping == Grouping::Parallel && loads.len() > 1 {
            report
                .error(codes::CONFLICT, node.at, "`groups` is not allowed with several loads")
                .help("write a separate scenario");
        }
        program.consecutive |= grouping == Grouping::Consecutive || loads.len() > 1;
        if grouping == Grouping::Together {
            let mut all = feed(requests, program);
            all.extend(steps.iter().flat_map(|(_, steps)| steps.iter().cloned()));
            program.groups.push(load::group(&load, format!("users{number}"), all, report)?);
            continue;
        }
        for (request, own) in &steps {
            let mut all = feed(std::slice::from_ref(*request), program);
            all.extend(own.iter().cloned());
            let label = own.iter().find_map(|step| match step {
                Step::Request(request) => Some(program.labels.name(request.label, str::to_owned)),
                _ => None,
            });
            let name = format!("{}{number}", label.unwrap_or_default());
            program.groups.push(load::group(&load, name, all, report)?);
        }
    }
    Some(())
}

/// Consumes a row of each feeder used by these requests.
fn feed(requests: &[Node], program: &Program) -> Vec<Step> {
    let mut mentioned = vec![false; program.feeders.len()];
    for request in requests {
        request.each_scalar(&mut |node| {
            let text = node.text().unwrap_or_default();
            for (feeder, mentioned) in program.feeders.iter().zip(&mut mentioned) {
                *mentioned |= text.contains(&format!("${{{}.", feeder.name));
            }
        });
    }
    let ids = mentioned.iter().enumerate().filter(|(_, mentioned)| **mentioned);
    ids.map(|(index, _)| Step::Feed(FeederId(u32::try_from(index).unwrap_or(u32::MAX)))).collect()
}
