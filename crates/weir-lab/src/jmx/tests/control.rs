//! Controllers, modules, thread groups of plugins.

use super::*;
use crate::program::{ControllerKind, Planned};

fn controller(class: &str, properties: &[(&str, &str)], below: &str) -> String {
    element(class, properties).replace("<hashTree/>", &format!("<hashTree>{below}</hashTree>"))
}

fn list(name: &str, rows: &[&[&str]]) -> String {
    let row = |row: &&[&str]| {
        let cells: String =
            row.iter().map(|cell| format!("<stringProp name=\"c\">{cell}</stringProp>")).collect();
        format!("<collectionProp name=\"r\">{cells}</collectionProp>")
    };
    format!(
        "<collectionProp name=\"{name}\">{}</collectionProp>",
        rows.iter().map(row).collect::<String>()
    )
}

fn module(path: &[&str]) -> String {
    let names: String =
        path.iter().map(|name| format!("<stringProp name=\"n\">{name}</stringProp>")).collect();
    format!(
        "<ModuleController testclass=\"ModuleController\" testname=\"m\"><collectionProp \
         name=\"ModuleController.node_path\"><stringProp name=\"r\">Root</stringProp>{names}\
         </collectionProp></ModuleController>\n<hashTree/>\n"
    )
}

fn included(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("part.jmx"), text).expect("written");
    let include = element("IncludeController", &[("IncludeController.includepath", "part.jmx")]);
    (folder, plan(&group(&include)))
}

#[test]
fn modules_refer_to_controllers_and_cycles_are_errors() {
    let target =
        |below: &str| controller("GenericController", &[], below).replace("\"e\"", "\"part\"");
    let inside = target(&sampler("a", &[], "")) + &module(&["p", "Users", "part"]);
    let plan = load(&group(&inside)).expect("a plan");
    assert_eq!(requests(&plan).len(), 2);
    let missing = load(&group(&module(&["p", "Users", "nowhere"]))).expect_err("refused");
    assert!(missing[0].contains("the plan has no controller `p / Users / nowhere`"), "{missing:?}");
    let cycle = load(&group(&target(&module(&["p", "Users", "part"])))).expect_err("refused");
    assert!(cycle[0].contains("refer to each other more than 32 deep"), "{cycle:?}");
    // Each level has two modules: the number of elements is bounded, too.
    let both = module(&["p", "Users", "part"]).repeat(2);
    let grows = load(&group(&target(&both))).expect_err("refused");
    assert!(grows.iter().any(|problem| problem.contains("more than 200000 elements")), "{grows:?}");
}

#[test]
fn problems_of_included_files_have_their_name() {
    let fragment = |below: &str| plan(&controller("TestFragmentController", &[], below));
    let (folder, text) = included(&fragment(&element("JDBCSampler", &[])));
    let problem = |text: &str, folder: &Path| {
        load_text(text, folder, &Options::default()).expect_err("refused").to_string()
    };
    let found = problem(&text, folder.path());
    assert!(found.contains("in `part.jmx`: JDBCSampler `e`"), "{found}");
    let (folder, text) = included(&plan(&group("")));
    assert!(problem(&text, folder.path()).contains("`part.jmx` has no Test Fragment"));
    assert!(problem(&text, Path::new("/nowhere")).contains("cannot be read"));
    let include = element("IncludeController", &[("IncludeController.includepath", "part.jmx")]);
    let (folder, text) = included(&fragment(&include));
    assert!(problem(&text, folder.path()).contains("refer to each other more than 32 deep"));
}

#[test]
fn the_end_of_a_transaction_is_part_of_a_turn() {
    let by_sample = |below: &str| {
        let choice = controller("InterleaveControl", &[("InterleaveControl.style", "0")], below);
        let plan = load(&group(&choice)).expect("a plan");
        plan.program.groups[0].steps.iter().any(|step| match step {
            Step::Control(inner) => {
                matches!(inner.kind, ControllerKind::Choose { by_sample: true, .. })
            }
            _ => false,
        })
    };
    let one = sampler("a", &[], "");
    assert!(!by_sample(&one.repeat(2)));
    assert!(by_sample(&controller("TransactionController", &[], &one)));
}

#[test]
fn what_cannot_be_executed_exactly_is_an_error() {
    let open = "<OpenModelThreadGroup testname=\"o\"><stringProp \
                name=\"OpenModelThreadGroup.schedule\">rate(5)</stringProp></OpenModelThreadGroup><hashTree/>";
    let problems = load(open).expect_err("refused");
    assert!(
        problems[0].contains("the schedule is invalid: `/` is expected at character 7"),
        "{problems:?}"
    );
}

#[test]
fn listeners_of_any_kind_are_ignored_but_scripts_are_not() {
    let one = sampler("a", &[], "");
    for class in [
        "ViewResultsFullVisualizer",
        "BackendListener",
        "kg.apc.CorrectedResultCollector",
        "x.FlexibleFileWriter",
    ] {
        load(&group(&(element(class, &[]) + &one))).expect(class);
    }
    for class in ["JSR223Listener", "BSFListener"] {
        assert!(load(&group(&(element(class, &[]) + &one))).is_err(), "{class}");
    }
    // It ends a test.
    let stops = element("kg.apc.jmeter.reporters.AutoStop", &[]);
    for inside in [stops.clone() + &group(&one), group(&(stops + &one))] {
        let problems = load(&inside).expect_err("refused");
        assert!(problems[0].contains("does not end a run by the results"), "{problems:?}");
    }
}

#[test]
fn labels_and_numbers_of_threads_may_change() {
    let counter = element("CounterConfig", &[("CounterConfig.name", "c")]);
    let set = sampler("${__setProperty(n,3)}", &[], "");
    let inside = group(&(counter + &sampler("item ${c}", &[], "") + &set));
    let inside = inside.replace(
        "<intProp name=\"ThreadGroup.num_threads\">2</intProp>",
        "<stringProp name=\"ThreadGroup.num_threads\">${__P(n,2)}</stringProp>",
    );
    let plan = load(&inside).expect("a plan");
    assert!(matches!(plan.program.groups[0].executor, Executor::UsersAtStart(_)));
    assert!(requests(&plan)[0].name.is_some() && plan.program.labels.is_empty());
}

#[test]
fn users_of_plugins_start_and_end_on_their_own() {
    let text = |class: &str, properties: &str| {
        format!(
            "<{class} testname=\"g\">{properties}</{class}>\n<hashTree>{}</hashTree>",
            sampler("a", &[], "")
        )
    };
    let spans = |inside: &str| {
        let plan = load(inside).expect("a plan");
        let Executor::Planned(Planned { spans, .. }) = &plan.program.groups[0].executor else {
            panic!("{:?}", plan.program.groups[0].executor)
        };
        let seconds =
            |span: &crate::program::Span| (span.start.as_secs_f64(), span.end.as_secs_f64());
        spans.iter().map(seconds).collect::<Vec<_>>()
    };
    let rows =
        list("ultimatethreadgroupdata", &[&["2", "1", "4", "10", "2"], &["1", "0", "0", "5", "0"]]);
    // The last thread of a row starts first, as in the plugin.
    assert_eq!(spans(&text("UltimateThreadGroup", &rows)), [(5.0, 17.0), (3.0, 16.0), (0.0, 5.0)]);
    let number =
        |(name, value): &(&str, &str)| format!("<stringProp name=\"{name}\">{value}</stringProp>");
    let stepping: String = [
        ("ThreadGroup.num_threads", "5"),
        ("Threads initial delay", "1"),
        ("Start users count", "2"),
        ("Start users count burst", "1"),
        ("Start users period", "10"),
        ("rampUp", "2"),
        ("flighttime", "20"),
        ("Stop users count", "2"),
        ("Stop users period", "3"),
    ]
    .iter()
    .map(number)
    .collect();
    // Top: 1 + 2 turns of 12 + 2 users a second apart + 20.
    assert_eq!(
        spans(&text("SteppingThreadGroup", &stepping)),
        [(1.0, 47.0), (13.0, 47.0), (14.0, 50.0), (25.0, 50.0), (26.0, 53.0)]
    );
}

#[test]
fn a_once_only_controller_in_a_simple_one_is_not_one_of_the_loop() {
    let once = controller("OnceOnlyController", &[], &sampler("once", &[], ""));
    let plan = load(&group(&controller("GenericController", &[], &once))).expect("a plan");
    let [Step::Control(simple)] = plan.program.groups[0].steps.as_slice() else { panic!("one") };
    assert!(matches!(simple.kind, ControllerKind::Simple));
}

#[test]
fn only_properties_that_the_plan_sets_change() {
    let path = |path: &str| sampler("a", &[("HTTPSampler.path", path)], "");
    let set = |name: &str| path(&format!("/${{__setProperty({name},1)}}"));
    let is_fixed = |inside: String| {
        let plan = load(&group(&(path("/${__P(other,2)}") + &inside))).expect("a plan");
        matches!(&requests(&plan)[0].url, Url::Parts { target, .. } if target.as_fixed().is_some())
    };
    assert!(is_fixed(set("one")));
    assert!(!is_fixed(set("other")));
    assert!(!is_fixed(set("${name}")), "any");
}

#[test]
fn rates_and_times_of_plugins_are_bounded() {
    let text = |class: &str, properties: &str| {
        format!("<{class} testname=\"g\">{properties}</{class}>\n<hashTree/>")
    };
    let refused = |class: &str, properties: &str| load(&text(class, properties)).expect_err(class);
    for (cell, expected) in [
        ("inf", "`Schedule` has `inf` as a number"),
        ("NaN", "`Schedule` has `NaN` as a number"),
        ("-1", "`Schedule` has `-1` as a number"),
        ("1e12", "a rate is from 0 to 10000000/s, not 1000000000000/s"),
    ] {
        let problems =
            refused("FreeFormArrivalsThreadGroup", &list("Schedule", &[&["0", cell, "9"]]));
        assert!(problems[0].contains(expected), "{problems:?}");
    }
    let level = "<stringProp name=\"TargetLevel\">1e300</stringProp>";
    let problems = refused("ArrivalsThreadGroup", level);
    assert!(problems[0].contains("a rate is from 0 to 10000000/s"), "{problems:?}");
    // No sum of times overflows.
    let huge = |name: &str| format!("<stringProp name=\"{name}\">{}</stringProp>", i64::MAX);
    let times = huge("Start users period") + &huge("rampUp") + &huge("flighttime");
    let users = "<stringProp name=\"ThreadGroup.num_threads\">9</stringProp>".to_owned();
    load(&text("SteppingThreadGroup", &(users + &times))).expect("a plan");
    let rows = list("Schedule", &[&["1", "1", "1e300"], &["1", "1", "1e300"]]);
    load(&text("FreeFormArrivalsThreadGroup", &rows)).expect("a plan");
}

#[test]
fn included_files_are_read_once_and_bounded_together() {
    let fragment = plan(&controller("TestFragmentController", &[], &sampler("a", &[], "")));
    let (folder, _) = included(&(fragment.clone() + &" ".repeat(700 << 10)));
    std::fs::write(folder.path().join("other.jmx"), fragment + &" ".repeat(700 << 10)).unwrap();
    let load = |names: &[&str]| {
        let include =
            |name: &&str| element("IncludeController", &[("IncludeController.includepath", name)]);
        let inside: String = names.iter().map(include).collect();
        load_text(&plan(&group(&inside)), folder.path(), &Options::default())
    };
    let plan = load(&["part.jmx", "part.jmx", "part.jmx"]).expect("a plan");
    assert_eq!(requests(&plan).len(), 3);
    let error = load(&["part.jmx", "other.jmx"]).expect_err("refused").to_string();
    assert!(error.contains("the included files have more than 1 MiB"), "{error}");
}
