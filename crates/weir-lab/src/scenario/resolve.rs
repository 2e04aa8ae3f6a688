//! Resolves a document to a [`Scenario`].

use super::cells::{self, Combination};
use super::feeders::{self, Shared};
use super::fields::pairs_of;
use super::grpc;
use super::keys::{Apply, Cases, ROOT};
use super::load::{self, Grouping, Load};
use super::request::{self, Context, RequestKeys};
use super::settings::Generator;
use super::side_loads::SideLoad;
use super::texts::{self, Known};
use super::{
    Cell, Level, Overrides, Scenario, Target, bars, checks, conditions, contenders, mix, only,
    overrides, prepare, probes, published, settings, tls,
};
use crate::measure::{Method, size};
use crate::program::{Origin, Program, Step};
use crate::protocol::{CaseOrder, PairedRules, RoundSize};
use std::path::Path;
use weir_document::check::check;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, Findings, codes};
use weir_document::shape::fields::Fields;

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
            let is_complete = over.level == Level::Usual && over.sets.is_empty();
            only::check(&root, is_complete, &mut document.report);
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
    let mut shared = Shared::new(folder);
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
    let cases = root.object_or_empty("cases", Cases::SHAPE);
    let order = match (&method, cases.get("order")) {
        (Method::Paired(_), None) => CaseOrder::Rotated,
        _ => Cases::read(&cases).order,
    };
    for cell in &cells {
        check_measured_rate(cell, &cells, root, report);
        check_cut(cell, &method, root, report);
    }
    Some(Scenario {
        name: name.unwrap_or_default(),
        target: settings::target(root)?,
        server: settings::server(root, folder),
        prepare: prepare::preparations(root.many("prepare")),
        order,
        method,
        bars: bars::bars(root, &cells, report),
        folder: folder.to_owned(),
        idle,
        observe: settings::observe(root, folder),
        thresholds: conditions::thresholds(root, &cells, report),
        stop: conditions::stop(root, &cells, report),
        files: shared.files.into_iter().collect(),
        generates_keys: shared.generates_keys,
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
    let origin = origin(&target, root, report)?;
    settings::check_all_ready(root, &origin, report);
    let (program, known) = program(root, root, (&target, &origin), shared, report)?;
    let schema = grpc::schema(root, (shared.folder, &shared.schemas), report);
    let (folder, bodies) = (shared.folder, &shared.bodies);
    let context =
        Context { target: &target, origin: &origin, folder, bodies, schema, known: &known };
    let probes = probes::probes(root, &context, &program, report);
    let mut side = |key: &str, report: &mut Diagnostics| {
        let Some(side) = root.object(key, SideLoad::SHAPE) else { return Some(None) };
        program_of_side(root, &side, (&target, &origin), shared, report).map(Some)
    };
    let (setup, background) = (side("setup", report)?, side("background", report)?);
    let named = |list: &[(String, weir_document::draft::Scalar)]| {
        list.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect::<Vec<_>>()
    };
    let cases = root.object_or_empty("cases", Cases::SHAPE);
    let apply = Apply::read(&cases.object_or_empty("apply", Apply::SHAPE));
    load::check_measured_rates(root.many("load"), report);
    Some(Cell {
        values: named(&combination.values),
        case: named(&combination.case),
        sets: apply.set,
        env: apply.env,
        args: apply.args,
        contender: contenders::contender(root, combination, shared.folder, report),
        generator: contenders::generator(root, combination, &program, report),
        generator_cores: Generator::read(&root.object_or_empty("generator", Generator::SHAPE))
            .cores,
        rate: load::measured_rate(root.many("load")),
        verify: root
            .many("verify")
            .iter()
            .flat_map(|node| checks::checks(node, (&known, shared.folder), report))
            .collect(),
        probes,
        backend: settings::backend(root, shared.folder),
        published: published::published(root, combination, report),
        attributes: published::attributes(combination),
        program,
        setup,
        background,
    })
}

/// The origin of the target.
fn origin(target: &Target, root: &Fields<'_>, report: &mut Diagnostics) -> Option<Origin> {
    let Ok((origin, _)) = Origin::parse(&target.base) else {
        let at = root.get("target").map_or(root.node().at, |node| node.at);
        report.error(codes::BAD_VALUE, at, format!("`{}` is not a base URL", target.base));
        return None;
    };
    Some(origin)
}

/// The program of `requests` and `load` in `of`, and its names; feeders, variables and target are
/// those of the scenario.
fn program(
    root: &Fields<'_>,
    of: &Fields<'_>,
    (target, origin): (&Target, &Origin),
    shared: &mut Shared<'_>,
    report: &mut Diagnostics,
) -> Option<(Program, Known)> {
    let mut program = Program { insecure: target.insecure, ..Program::default() };
    if let (Some(keys), Some(node)) = (&target.tls, root.get("target").and_then(|t| t.get("tls"))) {
        program.tls = tls::identity(keys, shared.folder, node, report)?;
    }
    let mut known = Known::default();
    known.constants.extend(root.get("variables").and_then(pairs_of).unwrap_or_default());
    feeders::feeders(root, shared, &mut known, &mut program, report);
    extracted(of, &mut known, &mut program, report);
    let (folder, bodies) = (shared.folder, &shared.bodies);
    let schema = grpc::schema(root, (folder, &shared.schemas), report);
    let context = Context { target, origin, folder, bodies, schema, known: &known };
    groups(of, &context, &mut program, report)?;
    Some((program, known))
}

/// The program of a load that is not reported.
fn program_of_side(
    root: &Fields<'_>,
    side: &Fields<'_>,
    target: (&Target, &Origin),
    shared: &mut Shared<'_>,
    report: &mut Diagnostics,
) -> Option<Program> {
    if let Some(load) = side.many("load").iter().find(|load| load::is_measured(load)) {
        report
            .error(codes::CONFLICT, load.at, "the rate of this load cannot be a measured one")
            .help("write a number");
    }
    program(root, side, target, shared, report).map(|(program, _)| program)
}

/// Reports a rate of cells that do not exist, or are not measured before.
fn check_measured_rate(cell: &Cell, cells: &[Cell], root: &Fields<'_>, report: &mut Diagnostics) {
    let Some(rate) = &cell.rate else { return };
    let before = cells.iter().take_while(|other| other.values != cell.values);
    if !before.into_iter().any(|other| rate.of.iter().all(|value| other.values.contains(value))) {
        let at = root.get("load").map_or(root.node().at, |node| node.at);
        let of: Vec<String> =
            rate.of.iter().map(|(name, value)| format!("{name}={value}")).collect();
        report
            .error(codes::CONFLICT, at, format!("no cell with {} is measured before", of.join(" ")))
            .help("write its value before the others in `matrix`");
    }
}

/// Reports rounds of which nothing is left after `cut`.
fn check_cut(cell: &Cell, method: &Method, root: &Fields<'_>, report: &mut Diagnostics) {
    let (Method::Paired(PairedRules { cut, .. }) | Method::Fixed { cut }) = method else { return };
    if let Some(generator) = cell.generator.filter(|_| !cut.is_zero()) {
        let at = root.get("protocol").map_or(root.node().at, |node| node.at);
        let message =
            format!("`cut` is not possible with {generator}, which reports its whole load");
        report.error(codes::CONFLICT, at, message).help("omit `cut`, or the `generator`");
        return;
    }
    let Method::Paired(_) = method else { return };
    let is_longer = match size(&cell.program) {
        Some(RoundSize::Seconds(seconds)) => seconds > cut.as_secs_f64(),
        _ => cut.is_zero(),
    };
    if !is_longer {
        let at = root.get("protocol").map_or(root.node().at, |node| node.at);
        let seconds = cut.as_secs();
        let message = format!("nothing of the load is left after a `cut` of {seconds} s");
        report.error(codes::CONFLICT, at, message).help("set a longer `duration` of the load");
    }
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

fn groups(
    fields: &Fields<'_>,
    context: &Context<'_>,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<()> {
    let requests = fields.many("requests");
    let mut steps = Vec::new();
    for node in requests {
        steps.push((node, request::steps(node, context, program, report)?));
    }
    let loads = fields.many("load");
    for (index, node) in loads.iter().enumerate() {
        let number = if loads.len() > 1 { format!(" {}", index + 1) } else { String::new() };
        let load = Fields::new(node, Load::SHAPE);
        let grouping = Load::read(&load).groups;
        if grouping == Grouping::Parallel && loads.len() > 1 {
            report
                .error(
                    codes::CONFLICT,
                    node.at,
                    "several loads run one after the other, not `parallel`",
                )
                .help("write `groups: consecutive`, or a separate scenario");
        }
        program.consecutive |= grouping == Grouping::Consecutive || loads.len() > 1;
        if grouping == Grouping::Together {
            let mut all = feeders::feed(requests, program);
            all.extend(mix::steps(&steps, report)?);
            program.groups.push(load::group(&load, format!("users{number}"), all, report)?);
            continue;
        }
        if let Some((request, _)) = steps.iter().find(|(request, _)| mix::is_weighted(request)) {
            report
                .error(codes::CONFLICT, request.at, "each request has a group of its own")
                .help("omit `weight` and `flow`, or `groups` of the load");
        }
        for (request, own) in &steps {
            let mut all = feeders::feed(std::slice::from_ref(*request), program);
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
