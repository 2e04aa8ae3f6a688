//! Flow control actions, modules and what ends a run, compared with JMeter.

use super::compare_text;
use super::control::{
    action, counter, fails, flow_control, if_of, looped, once, simple, transaction, users, while_of,
};
use super::elements::{el, get, get_with, group, group_of, list, plan, variables};

fn pause(milliseconds: &str) -> String {
    flow_control("1", "0", milliseconds)
}

fn actions() -> String {
    let around = |parent, inner: &str| transaction("cut", parent, inner);
    [
        users(
            "Next",
            "3",
            &[
                get("next-a"),
                looped(
                    "l",
                    "3",
                    &[
                        get("next-b"),
                        simple(&[get("next-c"), action("4", "0"), get("next-d")].concat()),
                    ]
                    .concat(),
                ),
                looped(
                    "l",
                    "3",
                    &[
                        get("break-a"),
                        around(false, &(get("break-t") + &action("5", "0"))),
                        get("break-b"),
                    ]
                    .concat(),
                ),
                pause("10"),
                looped(
                    "l",
                    "2",
                    &around(
                        false,
                        &[
                            get("next-e"),
                            if_of("${__jm__Next__idx} > 0", false, false, &action("3", "0")),
                            get("next-f"),
                        ]
                        .concat(),
                    ),
                ),
                while_of(
                    "true",
                    &[
                        get("while-next"),
                        counter("w", "1", "1"),
                        if_of("${w} < 3", false, false, &action("4", "0")),
                        action("5", "0"),
                    ]
                    .concat(),
                ),
                get("next-g"),
            ]
            .concat(),
        ),
        users(
            "Stop",
            "3",
            &[
                get("stop-a"),
                if_of(
                    "${__jm__Stop__idx} == 1",
                    false,
                    false,
                    &around(false, &(get("stop-b") + &action("0", "0"))),
                ),
                get("stop-c"),
            ]
            .concat(),
        ),
        users(
            "Stop parent",
            "1",
            &around(true, &[get("stop-p"), action("0", "0"), get("stop-never")].concat()),
        ),
        users("Break", "3", &[get("break-g"), action("5", "0"), get("break-never")].concat()),
        group(
            "Error next",
            "${__P(users)}",
            "2",
            &[("ThreadGroup.on_sample_error", "startnextloop")],
            &[
                around(
                    false,
                    &[get("error-a"), looped("l", "2", &fails("error-b")), get("error-c")].concat(),
                ),
                get("error-d"),
            ]
            .concat(),
        ),
        group(
            "Error parent",
            "${__P(users)}",
            "2",
            &[("ThreadGroup.on_sample_error", "startnextloop")],
            &around(true, &[once(&get("error-once")), get("error-e"), fails("error-f")].concat()),
        ),
        group(
            "Error stop",
            "${__P(users)}",
            "2",
            &[("ThreadGroup.on_sample_error", "stopthread")],
            &[around(true, &fails("error-g")), get("error-h")].concat(),
        ),
    ]
    .concat()
}

fn samples() -> String {
    let debug = [("displayJMeterVariables", "true"), ("displayJMeterProperties", "false")];
    users(
        "Samples",
        "3",
        &[
            transaction("before", false, &if_of("false", true, false, &get("no"))),
            transaction("before-parent", true, &if_of("false", true, false, &get("no"))),
            counter("c", "1", "1"),
            get_with("item ${c}", "/status/200?${c}", ""),
            transaction("tx ${c}", false, &get_with("in ${c}", "/status/200?in", "")),
            transaction("empty", false, &if_of("false", true, false, &get("no"))),
            transaction("empty-parent", true, &if_of("false", true, false, &get("no"))),
            transaction("nothing", false, ""),
            transaction(
                "outer",
                true,
                &[get("inner-a"), transaction("inner", true, &fails("inner-b"))].concat(),
            ),
            transaction(
                "outer of two",
                true,
                &[
                    transaction("inner of two", false, &(get("inner-c") + &fails("inner-d"))),
                    transaction("good inner", false, &get("inner-e")),
                ]
                .concat(),
            ),
            transaction(
                "around",
                false,
                &[looped("l", "2", &get("around-a")), fails("around-b")].concat(),
            ),
            el("DebugSampler", "debug ${c}", &debug, ""),
            el("RecordingController", "recording", &[], &get("recorded")),
        ]
        .concat(),
    )
}

fn modules() -> String {
    let module = |path: &[&str]| {
        let path: Vec<&str> = ["Root", "Plan"].iter().chain(path).copied().collect();
        el(
            "ModuleController",
            "module",
            &[("raw:", &list("ModuleController.node_path", &path))],
            "",
        )
    };
    let off = |text: String| text.replacen("enabled=\"true\"", "enabled=\"false\"", 1);
    let fragment = el(
        "TestFragmentController",
        "Fragment",
        &[],
        &[
            variables(&[("from", "fragment")]),
            get_with("fragment", "/status/200?${from}", ""),
            looped("Part", "2", &get("fragment-part")),
            once(&get("fragment-once")),
        ]
        .concat(),
    );
    fragment
        + &users(
            "Modules",
            "2",
            &[
                module(&["Fragment"]),
                module(&["Fragment", "Part"]),
                module(&["Modules", "Off"]),
                off(el("GenericController", "Off", &[], &get("off"))),
                el(
                    "IncludeController",
                    "include",
                    &[("IncludeController.includepath", "included.jmx")],
                    "",
                ),
            ]
            .concat(),
        )
}

fn starts() -> String {
    let set =
        get_with("set", "/status/200?${__setProperty(threads,2)}${__setProperty(times,3)}", "");
    let setup = group_of("SetupThreadGroup", "Setup", ("1", "1"), &[], &set);
    setup + &group("Late", "${__P(threads)}", "${__P(times,1)}", &[], &get("late"))
}

#[test]
fn every_flow_control_action() {
    // How far others are when the first user stops the run is chance; the second one only waits. JMeter stops
    // the run in a thread of its own, and goes on to tearDown thread groups if all users have ended before.
    let first = if_of(
        "${__threadNum} == 1",
        false,
        false,
        &[pause("1000"), get("last"), action("0", "2")].concat(),
    );
    let second = if_of("${__threadNum} == 2", false, false, &pause("3000"));
    let stop = group("Stop all", "2", "3", &[], &[first, second].concat());
    // After a stop, JMeter executes no tearDown thread group by default.
    let never = group_of("PostThreadGroup", "Never", ("1", "1"), &[], &get("never"));
    let all = [samples(), modules(), actions(), starts(), stop, never].concat();
    let included = plan(&el("TestFragmentController", "Part", &[], &get("included")));
    compare_text("actions", &plan(&all), &[("included.jmx", included.as_bytes())]);
}
