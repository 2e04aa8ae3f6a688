//! Elements that control the flow, compared with JMeter.

use super::compare_text;
use super::elements::{el, get, get_with, group, plan, variables};

fn csv(file: &str, names: &str) -> String {
    let properties = [
        ("filename", file),
        ("variableNames", names),
        ("delimiter", ","),
        ("recycle", "true"),
        ("stopThread", "false"),
        ("shareMode", "shareMode.thread"),
    ];
    el("CSVDataSet", "rows", &properties, "")
}

pub(super) fn simple(below: &str) -> String {
    el("GenericController", "simple", &[], below)
}

pub(super) fn once(below: &str) -> String {
    el("OnceOnlyController", "once", &[], below)
}

pub(super) fn looped(name: &str, loops: &str, below: &str) -> String {
    let properties = [("LoopController.loops", loops), ("LoopController.continue_forever", "true")];
    el("LoopController", name, &properties, below)
}

pub(super) fn if_of(condition: &str, expression: bool, all: bool, below: &str) -> String {
    let text = |on: bool| if on { "true" } else { "false" };
    let properties = [
        ("string:IfController.condition", condition),
        ("IfController.useExpression", text(expression)),
        ("IfController.evaluateAll", text(all)),
    ];
    el("IfController", "if", &properties, below)
}

pub(super) fn while_of(condition: &str, below: &str) -> String {
    el("WhileController", "while", &[("string:WhileController.condition", condition)], below)
}

pub(super) fn for_each(input: &str, more: &[(&str, &str)], below: &str) -> String {
    let mut properties =
        vec![("ForeachController.inputVal", input), ("ForeachController.returnVal", "each")];
    properties.extend(more);
    el("ForeachController", "each", &properties, below)
}

pub(super) fn counter(name: &str, start: &str, step: &str) -> String {
    let properties = [
        ("CounterConfig.name", name),
        ("CounterConfig.start", start),
        ("CounterConfig.incr", step),
        ("CounterConfig.per_user", "true"),
    ];
    el("CounterConfig", "count", &properties, "")
}

pub(super) fn transaction(name: &str, parent: bool, below: &str) -> String {
    let parent = if parent { "true" } else { "false" };
    let properties = [
        ("TransactionController.parent", parent),
        ("TransactionController.includeTimers", "false"),
    ];
    el("TransactionController", name, &properties, below)
}

pub(super) fn action(action: &str, target: &str) -> String {
    flow_control(action, target, "10")
}

pub(super) fn flow_control(action: &str, target: &str, milliseconds: &str) -> String {
    let properties = [
        ("int:ActionProcessor.action", action),
        ("int:ActionProcessor.target", target),
        ("ActionProcessor.duration", milliseconds),
    ];
    el("TestAction", "action", &properties, "")
}

pub(super) fn fails(name: &str) -> String {
    get_with(name, &format!("/status/500?{name}"), "")
}

/// Sets a variable to a group of a text in the URL.
fn from_url(variable: &str, pattern: &str) -> String {
    let properties = [
        ("RegexExtractor.useHeaders", "URL"),
        ("RegexExtractor.refname", variable),
        ("RegexExtractor.regex", pattern),
        ("RegexExtractor.template", "$1$"),
        ("RegexExtractor.match_number", "1"),
    ];
    el("RegexExtractor", "url", &properties, "")
}

pub(super) fn users(name: &str, loops: &str, below: &str) -> String {
    group(name, "${__P(users)}", loops, &[], below)
}

fn conditions() -> String {
    let set_off = get_with("off", "/status/200?on=false", &from_url("on", "on=(.*)"));
    let set_on = get_with("on", "/status/200?on=true", &from_url("on", "on=(.*)"));
    users(
        "Ifs",
        "3",
        &[
            variables(&[("on", "true"), ("word", "abc"), ("n", "7")]),
            if_of("${on}", true, false, &[get("if-a"), set_off.clone(), get("if-b")].concat()),
            set_on.clone(),
            if_of(
                "${on}",
                true,
                true,
                &[get("all-a"), simple(&(set_off + &get("all-b"))), get("all-c")].concat(),
            ),
            if_of(" TRUE ", true, false, &get("if-upper")),
            if_of("yes", true, false, &get("if-yes")),
            if_of("\"${word}\" == \"abc\" && ${n} > 5", false, false, &get("js-true")),
            if_of("${n} != 7 || !(1 < 2)", false, false, &get("js-false")),
            if_of("${absent} == 1", false, false, &get("js-absent")),
            fails("if-fails"),
            if_of("${JMeterThread.last_sample_ok}", true, false, &get("if-last-ok")),
            if_of(
                "\"${JMeterThread.last_sample_ok}\" == \"false\"",
                false,
                false,
                &get("if-last-failed"),
            ),
            // A condition that is not met resets the controllers within.
            set_on,
            looped(
                "thrice",
                "3",
                &[
                    counter("c", "1", "1"),
                    get_with(
                        "if-count",
                        "/status/200?on=${c}",
                        &from_url("odd", "on=(1|3|5|7|9)$"),
                    ),
                    if_of("${odd}", true, false, &once(&get("if-never"))),
                ]
                .concat(),
            ),
            csv("flags.csv", "flag"),
            if_of("${flag}", true, false, &[once(&get("if-once")), get("if-flag")].concat()),
        ]
        .concat(),
    )
}

fn loops() -> String {
    let more = csv("flags.csv", "more");
    let idx = |name: &str| get_with("idx", &format!("/status/200?${{__jm__{name}__idx}}"), "");
    users(
        "Loops",
        "2",
        &[
            while_of(
                "",
                &[counter("s", "200", "150"), get_with("while-blank", "/status/${s}", "")].concat(),
            ),
            fails("failed"),
            while_of("LAST", &get("while-last-not")),
            get("good"),
            while_of("LAST", &[get("while-last"), fails("while-last-fails")].concat()),
            while_of(
                "${more}",
                &[
                    more,
                    get_with("while-more", "/status/200?${more}${__jm__while__idx}", ""),
                    once(&get("while-once")),
                ]
                .concat(),
            ),
            idx("while"),
            looped(
                "nested",
                "2",
                &[
                    idx("nested"),
                    looped("inner", "2", &[once(&get("loop-once")), idx("inner")].concat()),
                    simple(&once(&get("simple-once"))),
                ]
                .concat(),
            ),
            idx("nested"),
            idx("Loops"),
            looped("none", "0", &get("none")),
            el(
                "LoopController",
                "single",
                &[("LoopController.loops", "2"), ("LoopController.continue_forever", "false")],
                &get("single"),
            ),
            el("LoopController", "usual", &[("LoopController.loops", "2")], &get("usual")),
            transaction("once-in", false, &once(&get("transaction-once"))),
            once(&[get("once-a"), fails("once-b"), get("once-c")].concat()),
            el(
                "RunTime",
                "time",
                &[("RunTime.seconds", "1")],
                &get_with("runtime", "/slow/400", ""),
            ),
            el("RunTime", "no-time", &[("RunTime.seconds", "0")], &get("runtime-0")),
        ]
        .concat(),
    )
}

fn lists() -> String {
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
    let each = |name: &str| get_with(name, "/status/200?${each}", "");
    let start = ("ForeachController.startIndex", "1");
    let end = ("ForeachController.endIndex", "2");
    users(
        "Lists",
        "2",
        &[
            variables(&[
                ("item_1", "a"),
                ("item_2", "b"),
                ("item_3", "c"),
                ("item_5", "e"),
                ("x1", "1"),
                ("x2", "2"),
            ]),
            for_each(
                "item",
                &[],
                &[each("each"), get_with("each-idx", "/status/200?${__jm__each__idx}", "")]
                    .concat(),
            ),
            each("each-after"),
            for_each(
                "item",
                &[start, ("ForeachController.useSeparator", "true")],
                &each("each-start"),
            ),
            for_each("item", &[end], &each("each-end")),
            for_each("item", &[start, end], &each("each-both")),
            for_each("item", &[("string:ForeachController.endIndex", "")], &each("each-empty-end")),
            for_each("x", &[("ForeachController.useSeparator", "false")], &each("each-bare")),
            for_each("none", &[], &each("each-none")),
            get_with("json", "/json", &json),
            for_each("part", &[], &[each("each-json"), once(&get("each-once"))].concat()),
            for_each("item", &[], &[each("break-a"), action("5", "0"), each("break-b")].concat()),
            for_each("item", &[], &[each("next-a"), action("4", "0"), each("next-b")].concat()),
        ]
        .concat(),
    )
}

fn switches() -> String {
    let switch = |value: &str| {
        let below = [
            get("sw-first"),
            simple(&[get("sw-simple"), get("sw-simple-2")].concat())
                .replace("\"simple\"", "\"named\""),
            get("DEFAULT"),
        ]
        .concat();
        el("SwitchController", "switch", &[("string:SwitchController.value", value)], &below)
    };
    let no_default =
        el("SwitchController", "switch", &[("SwitchController.value", "other")], &get("sw-none"));
    users(
        "Switches",
        "4",
        &[
            csv("numbers.csv", "n"),
            switch("${n}"),
            switch("named"),
            switch(" 9 "),
            switch(""),
            switch("other"),
            no_default,
        ]
        .concat(),
    )
}

fn choices() -> String {
    let of = |class: &str, style: &str, across: &str, below: &[String]| {
        let properties =
            [("int:InterleaveControl.style", style), ("InterleaveControl.accrossThreads", across)];
        el(class, "choice", &properties, &below.concat())
    };
    let interleave =
        |style, across, below: &[String]| of("InterleaveControl", style, across, below);
    let two = |a: &str, b: &str| simple(&(get(a) + &get(b)));
    let same = || get_with("random", "/status/200?random", "");
    let order = [
        get_with("order-a", "/status/200?random-a", ""),
        get_with("order-b", "/status/200?random-b", ""),
    ];
    users(
        "Choices",
        "7",
        &[
            interleave("1", "false", &[get("il-a"), get("il-b"), get("il-c")]),
            interleave("1", "true", &[get("ia-a"), get("ia-b"), get("ia-c")]),
            interleave(
                "1",
                "false",
                &[two("is-a", "is-b"), get("is-c"), looped("l", "2", &get("is-d"))],
            ),
            interleave("0", "false", &[two("iu-a", "iu-b"), get("iu-c"), two("iu-d", "iu-e")]),
            interleave(
                "1",
                "false",
                &[
                    if_of("false", true, false, &get("if-no")),
                    get("in-a"),
                    if_of("no", true, false, &get("in-no")),
                    get("in-b"),
                ],
            ),
            interleave("1", "false", &[if_of("false", true, false, &get("in-never"))]),
            interleave(
                "1",
                "false",
                &[
                    interleave("1", "false", &[get("ii-a"), get("ii-b")]),
                    transaction("ii-t", false, &get("ii-c")),
                ],
            ),
            of("RandomController", "1", "false", &[same(), simple(&same()), same()]),
            of("RandomController", "0", "false", &[same(), same()]),
            el("RandomOrderController", "order", &[], &order.concat()),
        ]
        .concat(),
    )
}

fn gates() -> String {
    let gate = |style: &str, limit: &str, per_user: &str, below: &str| {
        let float = format!(
            "<FloatProperty><name>ThroughputController.percentThroughput</name><value>{limit}</value>\
             <savedValue>0.0</savedValue></FloatProperty>"
        );
        let number = limit.split('.').next().unwrap_or_default();
        let properties = [
            ("int:ThroughputController.style", style),
            ("ThroughputController.perThread", per_user),
            ("int:ThroughputController.maxThroughput", number),
            ("raw:", float.as_str()),
        ];
        el("ThroughputController", "gate", &properties, below)
    };
    let lock = |below: &str| {
        el(
            "CriticalSectionController",
            "lock",
            &[("CriticalSectionController.lockName", "one")],
            below,
        )
    };
    users(
        "Gates",
        "6",
        &[
            gate("1", "50.0", "true", &get("percent-own")),
            gate("1", "33.3", "false", &get_with("percent-all", "/status/200?random", "")),
            gate("0", "2.0", "true", &[get("total-own"), get("total-own-2")].concat()),
            gate("0", "4.0", "false", &get_with("total-all", "/status/200?random", "")),
            gate("1", "0.0", "true", &get("percent-none")),
            gate("1", "100.0", "true", &get("percent-full")),
            looped("l", "2", &gate("1", "25.0", "true", &get("percent-loop"))),
            lock(&[get("locked"), lock(&get("locked-again"))].concat()),
        ]
        .concat(),
    )
}

#[test]
fn every_controller() {
    let all = [conditions(), loops(), lists(), switches(), choices(), gates()].concat();
    compare_text("controllers", &plan(&all), &[]);
}

#[test]
fn formats_of_numbers() {
    let formats = ["0000", "id-000 x", "#,##0", "0,000", "user"];
    let variable = |kind: &str, at: usize| format!("{kind}{at}");
    let mut inside = String::new();
    for (at, format) in formats.into_iter().enumerate() {
        let name = variable("c", at);
        let properties = [
            ("CounterConfig.name", name.as_str()),
            ("CounterConfig.start", "7"),
            ("CounterConfig.incr", "12340"),
            ("CounterConfig.format", format),
            ("CounterConfig.per_user", "true"),
        ];
        inside += &el("CounterConfig", &name, &properties, "");
        let name = variable("r", at);
        let properties = [
            ("variableName", name.as_str()),
            ("minimumValue", "12345"),
            ("maximumValue", "12345"),
            ("outputFormat", format),
            ("perThread", "true"),
            ("randomSeed", ""),
        ];
        inside += &el("RandomVariableConfig", &name, &properties, "");
    }
    for kind in ["c", "r"] {
        let texts: Vec<String> = (0..5).map(|at| format!("${{{}}}", variable(kind, at))).collect();
        inside += &get_with(kind, &format!("/status/200?{}", texts.join("/")), "");
    }
    let plan = plan(&group("Formats", "${__P(users)}", "3", &[], &inside));
    compare_text("formats-of-numbers", &plan, &[]);
}
