//! Checks of `only`, which restricts requests, loads, checks, bars and contenders to some cells.

use super::contenders;
use super::side_loads::SIDE_LOADS;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes, words};

/// Names that `only` may have, each with its values if they are known.
type Names<'n> = Vec<(&'n str, Option<Vec<&'n str>>)>;

/// Reports names under `only` (and `to`) that do not exist, and with `with_values` those of which no value
/// exists.
pub(super) fn check(root: &Node, with_values: bool, report: &mut Diagnostics) {
    let matrix = names(root, "matrix", root.get("matrix"), with_values);
    let factors = root.get("cases").and_then(|cases| cases.get("factors"));
    let mut all = matrix.clone();
    all.extend(names(root, "cases.factors", factors, with_values));
    let contenders = root.get("contenders").and_then(Node::members).unwrap_or_default();
    if !contenders.is_empty() {
        let own = contenders.iter().map(|member| member.key.as_str()).collect();
        all.push((contenders::FACTOR, Some(own)));
    }
    for item in restricted(root) {
        check_item(item, &all, "`matrix` or `cases`", report);
    }
    for item in items(root.get("bars")) {
        check_item(item, &matrix, "`matrix`, which alone restricts a bar", report);
    }
}

/// The names of a mapping at `path`.
fn names<'n>(root: &'n Node, path: &str, node: Option<&'n Node>, with_values: bool) -> Names<'n> {
    let members = node.and_then(Node::members).unwrap_or_default();
    let of = |member: &'n Member| {
        let values = if with_values { values(root, path, member) } else { None };
        (member.key.as_str(), values)
    };
    members.iter().map(of).collect()
}

/// The values of a name, also those of `levels`; `None` if the whole `matrix` has others there.
fn values<'n>(
    root: &'n Node,
    path: &str,
    Member { key, value, .. }: &'n Member,
) -> Option<Vec<&'n str>> {
    let levels = root.get("levels").and_then(Node::members).unwrap_or_default();
    let overrides = || levels.iter().flat_map(|level| level.value.members().unwrap_or_default());
    if overrides().any(|one| path.starts_with(one.key.as_str())) {
        return None;
    }
    let own = format!("{path}.{key}");
    let others = overrides().filter(|one| one.key == own).map(|one| &one.value);
    let mut all: Vec<&str> = Vec::new();
    for value in std::iter::once(value).chain(others).flat_map(values_in) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    Some(all)
}

/// The values of a list, or the names of a mapping.
fn values_in(node: &Node) -> Vec<&str> {
    match node.members() {
        Some(members) => members.iter().map(|member| member.key.as_str()).collect(),
        None => items(Some(node)).filter_map(Node::text).collect(),
    }
}

/// Everything that may have `only`, except bars.
fn restricted(root: &Node) -> impl Iterator<Item = &Node> {
    let side_loads = || SIDE_LOADS.iter().filter_map(|key| root.get(key));
    let requests = ["requests", "probes"].into_iter().map(|key| root.get(key));
    let requests = requests.chain(side_loads().map(|side| side.get("requests")));
    let requests: Vec<&Node> = requests.flat_map(items).collect();
    let checks: Vec<&Node> =
        requests.iter().flat_map(|request| items(request.get("checks"))).collect();
    let others = ["load", "verify", "published"].into_iter().map(|key| root.get(key));
    let others = others.chain(side_loads().map(|side| side.get("load"))).flat_map(items);
    let contenders = root.get("contenders").and_then(Node::members).unwrap_or_default();
    let contenders = contenders.iter().map(|member| &member.value);
    requests.into_iter().chain(checks).chain(others).chain(contenders)
}

/// The items of a list, or a single one.
fn items(node: Option<&Node>) -> impl Iterator<Item = &Node> {
    node.into_iter().flat_map(|node| node.items().unwrap_or(std::slice::from_ref(node)))
}

fn check_item(item: &Node, known: &Names<'_>, of: &str, report: &mut Diagnostics) {
    let members = ["only", "to"].iter().filter_map(|key| item.get(key)?.members()).flatten();
    for Member { key, value, at, .. } in members {
        let Some((_, values)) = known.iter().find(|(name, _)| name == key) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { words(&names) };
            report
                .error(codes::UNKNOWN_NAME, *at, format!("`{key}` is not a name of {of}"))
                .help(format!("names: {names}"));
            continue;
        };
        let Some(values) = values else { continue };
        // Some of several may be those of `--set`.
        let is_value = |text: &str| values.contains(&text) || text.contains("${");
        let texts: Vec<&str> = items(Some(value)).filter_map(Node::text).collect();
        if !texts.iter().any(|text| is_value(text)) {
            let message = format!("{} is no value of `{key}`", words(&texts));
            report
                .error(codes::UNKNOWN_NAME, value.at, message)
                .help(format!("values: {}", words(values)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::Step;
    use crate::scenario::{Level, Overrides, Scenario, load_text};
    use std::path::Path;

    const FILE: &str = "lab: 1
target: {base: \"http://127.0.0.1:1\"}
matrix: {load: [light, heavy]}
levels: {full: {matrix.load: [light, heavy, extreme]}}
contenders: {weir: {}, nginx: {}}
requests: [{name: get, get: /, checks: [{status: 200, only: {load: heavy}}]}]
setup:
  requests: [{get: /, checks: [{status: 200, only: {load: heavy}}, {status: 201, only: {load: light}}]}]
  load: {executor: shared-iterations, vus: 1, iterations: 1}
load: {executor: constant-vus, vus: 1, duration: 1s, only: {load: [light, heavy, extreme]}}
protocol: {rounds: {count: 2}}
bars: [{bar: \"rate of weir >= nginx\", only: {load: heavy}}]
";

    fn load(text: &str, over: &Overrides) -> Result<Scenario, String> {
        let loaded = load_text(Path::new("test.yaml"), text, over);
        loaded.map(|(scenario, _)| scenario).map_err(|findings| findings.render(false))
    }

    #[test]
    fn names_and_values_that_do_not_exist_are_reported_with_those_that_do() {
        load(FILE, &Overrides::default()).expect("valid");
        for (from, to, message) in [
            (
                "nginx\", only: {load: heavy}",
                "nginx\", only: {contender: weir}",
                "`contender` is not a name of `matrix`, which alone restricts a bar",
            ),
            ("nginx\", only: {load: heavy}", "nginx\", only: {load: heavi}", "values: `light`"),
            (
                "200, only: {load: heavy}}]}]\nsetup",
                "200, only: {lode: heavy}}]}]\nsetup",
                "`lode`",
            ),
            ("201, only: {load: light}", "201, only: {lode: light}", "names: `load`, `contender`"),
            (
                "[light, heavy, extreme]}}\nprotocol",
                "ligth}}\nprotocol",
                "`ligth` is no value of `load`",
            ),
            (
                "contenders: {weir: {}",
                "contenders: {weir: {only: {load: none}}",
                "`none` is no value of `load`",
            ),
        ] {
            assert!(FILE.contains(from), "{from}");
            let found = load(&FILE.replace(from, to), &Overrides::default()).expect_err(to);
            assert!(found.contains(message), "{to}: {found}");
        }
    }

    #[test]
    fn a_run_of_a_part_has_other_values() {
        let quick = Overrides { level: Level::Quick, ..Overrides::default() };
        load(&FILE.replace("full:", "quick:").replace("light, heavy, ", ""), &quick)
            .expect("valid");
        let sets = vec![("matrix.load".to_owned(), "[light]".to_owned())];
        load(FILE, &Overrides { sets, ..Overrides::default() }).expect("valid");
    }

    #[test]
    fn checks_of_side_loads_are_those_of_the_cell() {
        let scenario = load(FILE, &Overrides::default()).expect("valid");
        for cell in &scenario.cells {
            let setup = cell.setup.as_ref().expect("a setup");
            let steps = setup.steps();
            let [Step::Request(request)] = steps[..] else { panic!("a request") };
            assert_eq!(request.checks.len(), 1, "{}", cell.name());
        }
    }
}
