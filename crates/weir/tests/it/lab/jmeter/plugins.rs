//! Thread groups, timers and samplers of plugins, and the open model, compared with JMeter.

use super::compare_plugins;
use super::control::{for_each, once, transaction, users};
use super::elements::{el, get, get_with, group, group_of, list, plan};
use super::transactions::response_assertions;

/// Groups of plugins and the open model, which start together. Counts whose labels start with
/// `about` depend on times.
fn groups() -> String {
    let rows = |name: &str, rows: &[&[&str]]| {
        let rows: String = rows.iter().map(|row| list("row", row)).collect();
        format!("<collectionProp name=\"{name}\">{rows}</collectionProp>")
    };
    let jp = |class: &str, name: &str, more: &[(&str, &str)], below: &str| {
        group_of(&format!("kg.apc.jmeter.threads.{class}"), name, ("5", "2"), more, below)
    };
    let bz = |class: &str, name: &str, more: &[(&str, &str)], below: &str| {
        let main = "<elementProp name=\"ThreadGroup.main_controller\" \
                    elementType=\"com.blazemeter.jmeter.control.VirtualUserController\"/>";
        let properties: Vec<(&str, &str)> =
            more.iter().copied().chain([("raw:", main), ("Unit", "S")]).collect();
        el(&format!("com.blazemeter.jmeter.threads.{class}"), name, &properties, below)
    };
    let open = |name: &str, schedule: &str, below: &str| {
        let class = "org.apache.jmeter.threads.openmodel.OpenModelThreadGroup";
        el(class, name, &[("OpenModelThreadGroup.schedule", schedule)], below)
    };
    let ultimate =
        rows("ultimatethreadgroupdata", &[&["2", "0", "1", "3", "0"], &["1", "1", "0", "2", "1"]]);
    let stepping = [
        ("Threads initial delay", "0"),
        ("Start users count", "2"),
        ("Start users count burst", "1"),
        ("Start users period", "1"),
        ("Stop users count", "5"),
        ("Stop users period", "1"),
        ("flighttime", "3"),
        ("rampUp", "1"),
    ];
    let free = rows("Schedule", &[&["5", "5", "2"], &["5", "15", "2"]]);
    [
        jp("UltimateThreadGroup", "Ultimate", &[("raw:", &ultimate)], &get("ultimate")),
        jp("SteppingThreadGroup", "Stepping", &stepping, &get("stepping")),
        bz(
            "concurrency.ConcurrencyThreadGroup",
            "Concurrent",
            &[("TargetLevel", "2"), ("Hold", "4")],
            &get_with("about-concurrent", "/slow/400", ""),
        ),
        bz(
            "concurrency.ConcurrencyThreadGroup",
            "Steps",
            &[("TargetLevel", "4"), ("RampUp", "2"), ("Steps", "2"), ("Hold", "2")],
            &get_with("about-steps", "/slow/300", ""),
        ),
        bz(
            "arrivals.ArrivalsThreadGroup",
            "Arrivals",
            &[
                ("TargetLevel", "10"),
                ("RampUp", "2"),
                ("Steps", "2"),
                ("Hold", "2"),
                ("ConcurrencyLimit", "20"),
            ],
            &get("about-arrivals"),
        ),
        bz("arrivals.FreeFormArrivalsThreadGroup", "Free", &[("raw:", &free)], &get("about-free")),
        open("Even", "rate(8/sec) even_arrivals(1 sec) pause(5 s)", &get("even")),
        open(
            "Random",
            "rate(0) random_arrivals(1 s) rate(600/min) random_arrivals(1 s) rate(5/s) pause(5 s)",
            &(once(&get("open-once")) + &get("random")),
        ),
    ]
    .concat()
}

/// Timers that depend on other users, and samplers of plugins.
fn timers() -> String {
    let meet = [("int:groupSize", "3"), ("long:timeoutInMs", "0")];
    let timeout = [("int:groupSize", "9"), ("long:timeoutInMs", "200")];
    let precise = [
        ("double:throughput", "20"),
        ("int:throughputPeriod", "2"),
        ("long:duration", "2"),
        ("int:batchSize", "1"),
        ("int:batchThreadDelay", "0"),
        ("int:exactLimit", "10000"),
        ("double:allowedThroughputSurplus", "1.0"),
        ("long:randomSeed", "0"),
    ];
    let shape = format!(
        "<collectionProp name=\"load_profile\">{}</collectionProp>",
        list("row", &["5", "5", "2"])
    );
    let dummy = |name: &str, success: &str, code: &str, below: &str| {
        let properties = [
            ("SUCCESFULL", success),
            ("RESPONSE_CODE", code),
            ("RESPONSE_MESSAGE", "Said"),
            ("RESPONSE_DATA", "{\"l\":[1,2]}"),
            ("RESPONSE_TIME", "30"),
            ("LATENCY", "10"),
            ("CONNECT", "5"),
            ("WAITING", "true"),
            ("RESULT_CLASS", "org.apache.jmeter.samplers.SampleResult"),
        ];
        el("kg.apc.jmeter.samplers.DummySampler", name, &properties, below)
    };
    let json = el(
        "JSONPostProcessor",
        "items",
        &[
            ("JSONPostProcessor.referenceNames", "part"),
            ("JSONPostProcessor.jsonPathExprs", "$.l[*]"),
            ("JSONPostProcessor.match_numbers", "-1"),
        ],
        "",
    );
    [
        group(
            "Meet",
            "3",
            "4",
            &[],
            &get_with("meet", "/status/200?meet", &el("SyncTimer", "meet", &meet, "")),
        ),
        group(
            "Timeout",
            "2",
            "2",
            &[],
            &get_with("alone", "/status/200?alone", &el("SyncTimer", "meet", &timeout, "")),
        ),
        group(
            "Precise",
            "3",
            "5",
            &[],
            &get_with(
                "precise",
                "/status/200?precise",
                &el("PreciseThroughputTimer", "precise", &precise, ""),
            ),
        ),
        group(
            "Shaped",
            "2",
            "-1",
            &[],
            &get_with(
                "about-shaped",
                "/status/200?about",
                &el(
                    "kg.apc.jmeter.timers.VariableThroughputTimer",
                    "shaped",
                    &[("raw:", &shape)],
                    "",
                ),
            ),
        ),
        users(
            "Dummies",
            "2",
            &[
                dummy("dummy", "true", "200", &json),
                for_each("part", &[], &get_with("part", "/status/200?${each}", "")),
                dummy("dummy fails", "false", "500", ""),
                transaction("dummies", false, &dummy("dummy inside", "true", "201", "")),
            ]
            .concat(),
        ),
    ]
    .concat()
}

#[test]
fn thread_groups_timers_and_samplers_of_plugins() {
    // Groups start together: the open model counts its time from the start of the test.
    let together = plan(&(timers() + &groups()))
        .replace("serialize_threadgroups\">true", "serialize_threadgroups\">false");
    compare_plugins("plugins", &together);
}

#[test]
fn assertions_of_dummy_samplers() {
    let dummy = |name: &str, texts: [&str; 3], below: &str| {
        let properties = [
            ("SUCCESFULL", "true"),
            ("RESPONSE_CODE", "200"),
            ("RESPONSE_MESSAGE", texts[0]),
            ("RESPONSE_DATA", texts[0]),
            ("REQUEST_DATA", texts[1]),
            ("URL", texts[2]),
            ("RESPONSE_TIME", "1"),
            ("RESULT_CLASS", "org.apache.jmeter.samplers.SampleResult"),
        ];
        el("kg.apc.jmeter.samplers.DummySampler", name, &properties, below)
    };
    let inside: String = response_assertions()
        .iter()
        .map(|(name, assertion)| {
            dummy(&format!("empty {name}"), ["", "", ""], assertion)
                + &dummy(&format!("full {name}"), ["x", "y", "http://a.example/"], assertion)
        })
        .collect();
    compare_plugins("dummies", &plan(&group("G", "1", "1", &[], &inside)));
}
