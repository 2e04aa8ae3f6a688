use crate::measure::Method;
use crate::program::Executor;
use crate::scenario::{Cell, Level, Overrides, Scenario, load_text};
use std::path::Path;
use std::time::Duration;

const FILE: &str = r#"
lab: 1
target: {base: "http://127.0.0.1:8080", timeout: 3s}
server: {weir: weir.yaml}
cases: {factors: {tracker: [true, false]}, apply: {set: {tracker.enabled: "${tracker}"}}}
matrix: {kind: [plain, made], users: [1, 2, 3]}
requests:
  - {name: plain, get: /plain, only: {kind: plain}}
  - {name: made, get: "/made/${users}", only: {kind: made, users: [1, 3]}}
load:
  - {executor: constant-vus, vus: "${users}", duration: 60s, only: {kind: plain}}
  - {executor: shared-iterations, vus: "${users}", iterations: 10, only: {kind: made}}
published:
  - {throughput: 2660, only: {kind: plain, users: 1, tracker: true}, source: theirs}
  - {relative: 0.5, only: {kind: plain, users: 1, tracker: true}, to: {tracker: false}, source: theirs}
  - {p99: 168ms, only: {kind: made}, source: theirs}
levels:
  quick: {matrix.users: [1], load.0.duration: 2s, protocol: {fixed: {cut: 1s}}}
"#;

fn load(text: &str, over: &Overrides) -> Result<Scenario, String> {
    match load_text(Path::new("folder/test.yaml"), text, over) {
        Ok((scenario, _)) => Ok(scenario),
        Err(findings) => Err(findings.render(false)),
    }
}

fn names(scenario: &Scenario) -> Vec<String> {
    scenario.cells.iter().map(Cell::name).collect()
}

#[test]
fn requests_and_loads_of_other_cells_are_left_out() {
    let scenario = load(FILE, &Overrides::default()).unwrap();
    let names = names(&scenario);
    assert_eq!(names.len(), 10, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("kind=made users=2")), "{names:?}");
    let made = scenario.cells.last().unwrap();
    assert_eq!(made.program.labels.names(), ["made"]);
    assert!(
        matches!(made.program.groups[..], [ref one] if matches!(one.executor, Executor::SharedIterations { vus: 3, .. }))
    );
    let first = &scenario.cells[0];
    let published: Vec<(String, f64)> =
        first.published.iter().map(|figure| (figure.name(), figure.value)).collect();
    let to = "throughput, relative to kind=plain users=1 tracker=false";
    assert_eq!(published, [("throughput".to_owned(), 2660.0), (to.to_owned(), 0.5)]);
    assert_eq!((first.attributes.users, made.published[0].value), (Some(1), 168.0));
}

#[test]
fn levels_single_values_and_another_target_go_over_the_file() {
    let over = Overrides { level: Level::Quick, ..Overrides::default() };
    let quick = load(FILE, &over).unwrap();
    assert_eq!(quick.cells.len(), 4);
    assert_eq!(quick.method, Method::Fixed { cut: Duration::from_secs(1) });
    let sets = vec![("matrix.users".to_owned(), "[7, 8]".to_owned())];
    let set = load(FILE, &Overrides { sets, ..over }).unwrap();
    assert_eq!(
        names(&set),
        [
            "kind=plain users=7 tracker=true",
            "kind=plain users=7 tracker=false",
            "kind=plain users=8 tracker=true",
            "kind=plain users=8 tracker=false"
        ]
    );
    let target = Some("http://other:81/".to_owned());
    let other = load(FILE, &Overrides { target, ..Overrides::default() }).unwrap();
    assert_eq!(
        (other.target.base.as_str(), other.target.timeout),
        ("http://other:81", Duration::from_secs(3))
    );
    assert_eq!((other.server, other.cells.len()), (None, 5));
    assert_eq!(other.cells[0].published, [], "of a case that is not known");
}

#[test]
fn a_file_without_a_quick_level_is_shortened() {
    let text = FILE.split("levels:").next().unwrap();
    let quick = load(text, &Overrides { level: Level::Quick, ..Overrides::default() }).unwrap();
    let plain: Vec<&Cell> =
        quick.cells.iter().filter(|cell| cell.program.labels.names()[0] == "plain").collect();
    assert_eq!((plain.len(), &quick.method), (4, &Method::Once), "users 1 and 3, two cases");
    let Executor::Users(users) = &plain[0].program.groups[0].executor else { panic!("users") };
    assert_eq!(users.duration, Some(Duration::from_secs(5)));
    let full = load(text, &Overrides { level: Level::Full, ..Overrides::default() }).unwrap();
    assert_eq!(full.cells.len(), 10);
}

#[test]
fn errors_are_reported() {
    let wrong =
        |from: &str, to: &str, over: &Overrides| load(&FILE.replace(from, to), over).unwrap_err();
    let usual = Overrides::default();
    let unknown =
        wrong("only: {kind: plain}}\n  - {name", "only: {kinds: plain}}\n  - {name", &usual);
    assert!(unknown.contains("`kinds` is not a name of `matrix` or `cases`"), "{unknown}");
    let none = wrong("kind: [plain, made]", "kind: [other]", &usual);
    assert!(none.contains("no cell has both a request and a load"), "{none}");
    let quick = Overrides { level: Level::Quick, ..Overrides::default() };
    let path = wrong("load.0.duration", "load.9.duration", &quick);
    assert!(path.contains("`load.9.duration` does not exist"), "{path}");
    let set =
        Overrides { sets: vec![("load.0.vsu".to_owned(), "3".to_owned())], ..Overrides::default() };
    assert!(load(FILE, &set).unwrap_err().contains("vsu"));
    let number = wrong("throughput: 2660", "throughput: many", &usual);
    assert!(number.contains("takes a number"), "{number}");
    let gauges = wrong("cut: 1s", "cut: 1s, idle: {zero: [queue]}", &quick);
    assert!(gauges.contains("the metrics page of these gauges"), "{gauges}");
}
