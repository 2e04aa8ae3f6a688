//! Plans made of all kinds of elements, run by JMeter and by the Lab: how many run, how many agree in
//! their samples and requests. By default plans that have an element of each kind, so that every element
//! is in one of them; with `LAB_CORPUS=all` also those of all pairs of elements.
//!
//! Each plan is a thread group with an identity in its labels and URLs, so that one run of JMeter runs
//! many plans.

use super::elements::{el, group, list, plan, variables};
use super::server::Server;
use super::{JMETER, Line, by_jmeter, by_weir, oracle, without_boundaries, without_port};
use crate::harness::weir;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Plans of a run of JMeter.
const BATCH: usize = 120;
/// Plans with an element of each kind: as many as there are outer and inner controllers, and more than
/// there are functions.
const MIXED: usize = 30;

struct Plan {
    kind: &'static str,
    id: String,
    group: String,
}

fn request(id: &str, method: &str, path: &str, below: &str) -> String {
    let mark = if path.contains('?') { "&" } else { "?" };
    let path = format!("{path}{mark}{id}");
    let properties = [
        ("HTTPSampler.path", path.as_str()),
        ("HTTPSampler.method", method),
        ("HTTPSampler.use_keepalive", "true"),
        ("HTTPSampler.follow_redirects", "true"),
    ];
    el("HTTPSamplerProxy", &format!("{id} {method}"), &properties, below)
}

/// Samplers, with elements below.
fn samplers(id: &str, below: &str) -> Vec<String> {
    // JMeter lists variables of its own, which are bytes of a transaction.
    let debug = [("displayJMeterVariables", "false")];
    let script = [("scriptLanguage", "groovy"), ("script", "'hello ' + vars.get('n')")];
    vec![
        request(id, "GET", "/text", below),
        request(id, "POST", "/echo", below),
        request(id, "GET", "/store", below),
        request(id, "GET", "/status/404", below),
        request(id, "GET", "/redirect", below),
        request(id, "HEAD", "/text", below),
        el("DebugSampler", &format!("debug {id}"), &debug, below),
        el("JSR223Sampler", &format!("{id} script"), &script, below),
    ]
}

fn controllers(id: &str, below: &str) -> Vec<String> {
    let of = |class: &str, properties: &[(&str, &str)]| {
        el(class, &format!("{id} {class}"), properties, below)
    };
    let condition = |text: &str, expression: &str| {
        of(
            "IfController",
            &[("string:IfController.condition", text), ("IfController.useExpression", expression)],
        )
    };
    let loops = [("LoopController.loops", "2"), ("LoopController.continue_forever", "true")];
    let each = [
        ("ForeachController.inputVal", "v"),
        ("ForeachController.returnVal", "each"),
        ("ForeachController.useSeparator", "true"),
    ];
    let share = [
        ("int:ThroughputController.style", "1"),
        ("ThroughputController.perThread", "true"),
        ("string:ThroughputController.percentThroughput", "50"),
    ];
    let transaction = |parent: &str| {
        of(
            "TransactionController",
            &[
                ("TransactionController.parent", parent),
                ("TransactionController.includeTimers", "false"),
            ],
        )
    };
    let counting = "${__groovy((vars.get('w') ?: '0') as int < 2 && vars.put('w'\\, \
        String.valueOf(((vars.get('w') ?: '0') as int) + 1)) == null)}";
    vec![
        of("GenericController", &[]),
        of("OnceOnlyController", &[]),
        of("LoopController", &loops),
        condition("${__jexl3(${n} == 1)}", "true"),
        condition("\"${n}\" == \"2\"", "false"),
        condition("${__groovy(vars.get('n') == '1')}", "true"),
        of("WhileController", &[("WhileController.condition", counting)]),
        of("ForeachController", &each),
        of("SwitchController", &[("SwitchController.value", "0")]),
        of("InterleaveControl", &[("int:InterleaveControl.style", "1")]),
        of("RandomOrderController", &[]),
        of("ThroughputController", &share),
        transaction("false"),
        transaction("true"),
        of("CriticalSectionController", &[("CriticalSectionController.lockName", "lock")]),
    ]
}

fn timers() -> Vec<String> {
    let delay = |class: &str| {
        el(class, class, &[("ConstantTimer.delay", "1"), ("RandomTimer.range", "2")], "")
    };
    let script = [("scriptLanguage", "groovy"), ("script", "return 1")];
    vec![
        delay("ConstantTimer"),
        delay("UniformRandomTimer"),
        delay("GaussianRandomTimer"),
        delay("PoissonRandomTimer"),
        el("ConstantThroughputTimer", "rate", &[("double:throughput", "6000")], ""),
        el("JSR223Timer", "script", &script, ""),
    ]
}

fn assertions() -> Vec<String> {
    let response = |field: &str, kind: &str, pattern: &str| {
        let patterns = list("Asserion.test_strings", &[pattern]);
        let field = format!("Assertion.{field}");
        let properties = [
            ("raw:", patterns.as_str()),
            ("Assertion.test_field", field.as_str()),
            ("int:Assertion.test_type", kind),
        ];
        el("ResponseAssertion", "response", &properties, "")
    };
    let json = |path: &str| {
        let properties = [("JSON_PATH", path), ("JSONVALIDATION", "false")];
        el("JSONPathAssertion", "json", &properties, "")
    };
    let script = "AssertionResult.setFailure(!prev.getResponseCode().startsWith('2')); \
        AssertionResult.setFailureMessage('code ' + prev.getResponseCode())";
    vec![
        response("response_data", "16", "hello"),
        response("response_data", "2", "w.rld"),
        response("response_code", "8", "200"),
        response("response_headers", "6", "no such field"),
        response("request_data", "2", "${n}"),
        json("$.book[0].id"),
        el("DurationAssertion", "time", &[("DurationAssertion.duration", "60000")], ""),
        el("MD5HexAssertion", "md5", &[("MD5HexAssertion.size", "0123")], ""),
        el("JSR223Assertion", "script", &[("scriptLanguage", "groovy"), ("script", script)], ""),
        el(
            "BeanShellAssertion",
            "bean",
            &[("BeanShellAssertion.query", "Failure = ResponseCode.equals(\"404\");")],
            "",
        ),
    ]
}

fn extractors() -> Vec<String> {
    let of = |class: &str, prefix: &str, more: &[(&str, &str)]| {
        let name = |name: &str| format!("{prefix}.{name}");
        let usual = [("refname", "x"), ("match_number", "1"), ("default", "none")];
        let all: Vec<(String, &str)> =
            usual.iter().chain(more).map(|(n, value)| (name(n), *value)).collect();
        let all: Vec<(&str, &str)> = all.iter().map(|(n, value)| (n.as_str(), *value)).collect();
        el(class, class, &all, "")
    };
    let json = [
        ("JSONPostProcessor.referenceNames", "x"),
        ("JSONPostProcessor.jsonPathExprs", "$.book[*].title"),
        ("JSONPostProcessor.match_numbers", "2"),
        ("JSONPostProcessor.defaultValues", "none"),
    ];
    let script = [
        ("scriptLanguage", "groovy"),
        ("script", "vars.put('x', prev.getResponseDataAsString().length() + '')"),
    ];
    vec![
        of("RegexExtractor", "RegexExtractor", &[("regex", "(\\w+)"), ("template", "$1$")]),
        of(
            "BoundaryExtractor",
            "BoundaryExtractor",
            &[("lboundary", "hel"), ("rboundary", "world")],
        ),
        of("HtmlExtractor", "HtmlExtractor", &[("expr", "p"), ("attribute", "")]),
        el("JSONPostProcessor", "json", &json, ""),
        el("JSR223PostProcessor", "script", &script, ""),
        el("BeanShellPostProcessor", "bean", &[("script", "vars.put(\"x\", \"b\");")], ""),
    ]
}

const FUNCTIONS: [&str; 22] = [
    "${__V(v_${n})}",
    "${__eval(${n})}",
    "${__split(a-b,s,-)}${s_2}",
    "${__digest(SHA-256,a,,,)}",
    "${__urlencode(a b)}",
    "${__char(65)}",
    "${__changeCase(ab,UPPER,)}",
    "${__intSum(1,${n})}",
    "${__isVarDefined(n)}",
    "${__threadGroupName}",
    "${__timeShift(yyyy-MM-dd,2024-01-31,P1D,,)}",
    "${__dateTimeConvert(01212018,MMddyyyy,dd/MM/yyyy,)}",
    "${__javaScript(1+2)}",
    "${__jexl3(1+1)}",
    "${__groovy(1+1)}",
    "${__groovy(vars.get('n') + vars.get('v_2'))}",
    "${__BeanShell(1+1)}",
    "${__timeShift(dd MMMM yyyy,01 mars 2024,P1D,fr_FR,)}",
    "${__regexFunction(z,$0$,1,,none,,n)}",
    "${__P(none,d)}",
    "${__unescape(a\\tb)}",
    "${__escapeXml(<a>)}",
];

/// A controller in another one, with a sampler below a timer, an assertion and an extractor, and a
/// request with a function. Steps without a common factor bring together other elements each time.
fn mixed(at: usize, id: &str) -> String {
    fn choose(mut all: Vec<String>, at: usize) -> String {
        let at = at % all.len();
        all.swap_remove(at)
    }
    let below =
        choose(timers(), at) + &choose(assertions(), at * 3) + &choose(extractors(), at * 5);
    let function = FUNCTIONS[at % FUNCTIONS.len()];
    let shows = request(id, "POST", &format!("/echo?x=${{x}}&f={function}"), "");
    // In this order also in a Random Order Controller.
    let both = choose(samplers(id, &below), at * 3) + &shows;
    let inner = el("GenericController", id, &[], &both);
    choose(controllers(id, &choose(controllers(id, &inner), at * 7 + 1)), at)
}

/// All plans, or only those with an element of each kind.
fn plans(is_long: bool) -> Vec<Plan> {
    let mut all: Vec<Plan> = Vec::new();
    let mut add = |kind: &'static str, make: &dyn Fn(&str) -> String| {
        let id = format!("k{:04}.", all.len());
        let inside = make(&id);
        let group = group(&id, "${__P(users)}", "2", &[], &inside);
        all.push(Plan { kind, id, group });
    };
    (0..MIXED).for_each(|at| add("element of each kind", &|id| mixed(at, id)));
    if !is_long {
        return all;
    }
    let (of_samplers, of_controllers) = (samplers("", "").len(), controllers("", "").len());
    for controller in 0..of_controllers {
        for sampler in 0..of_samplers {
            add("controller × sampler", &|id| {
                controllers(id, &samplers(id, "")[sampler]).swap_remove(controller)
            });
        }
        for inner in 0..of_controllers {
            add("controller × controller", &|id| {
                let two = samplers(id, "")[0].clone() + &samplers(id, "")[3];
                controllers(id, &controllers(id, &two)[inner]).swap_remove(controller)
            });
        }
    }
    for sampler in 0..of_samplers {
        for assertion in assertions() {
            add("sampler × assertion", &|id| samplers(id, &assertion).swap_remove(sampler));
        }
        for timer in timers() {
            add("sampler × timer", &|id| samplers(id, &timer).swap_remove(sampler));
        }
        for extractor in extractors() {
            add("sampler × extractor", &|id| {
                samplers(id, &extractor).swap_remove(sampler)
                    + &request(id, "GET", "/status/200?x=${x}", "")
            });
        }
    }
    for function in FUNCTIONS {
        add("function", &|id| request(id, "POST", &format!("/echo?f={function}"), ""));
        add("function in a label", &|id| {
            el(
                "HTTPSamplerProxy",
                &format!("{id} {function}"),
                &[("HTTPSampler.path", &format!("/text?{id}")), ("HTTPSampler.method", "GET")],
                "",
            )
        });
    }
    all
}

fn whole(plans: &[&Plan]) -> String {
    let defined = variables(&[("n", "1"), ("v_1", "one"), ("v_2", "two")]);
    let groups: String = plans.iter().map(|plan| plan.group.as_str()).collect();
    plan(&(defined + &groups))
}

/// Whether the Lab runs these plans.
fn are_accepted(folder: &Path, home: &str, plans: &[&Plan]) -> bool {
    fs::write(folder.join("plans.jmx"), whole(plans)).expect("written");
    let args = ["lab", "check", "--jmeter", home, "-Jport=1", "-Jusers=1", "plans.jmx"];
    weir(folder, &args).status.success()
}

/// Samples and requests by the identity of their plan.
type Traces = BTreeMap<String, (BTreeMap<String, String>, Vec<String>)>;

fn traces(lines: &BTreeMap<String, Line>, server: &Server) -> Traces {
    let mut traces = Traces::new();
    let id_of = |text: &str| {
        let at = text.match_indices('k').map(|(at, _)| at);
        let mut ids = at.filter_map(|at| text.get(at..at + 6));
        ids.find(|id| id.ends_with('.') && id[1..5].bytes().all(|b| b.is_ascii_digit()))
            .map(str::to_owned)
    };
    for (label, line) in lines {
        let id = id_of(label).unwrap_or_default();
        let mut text = without_port(server, &format!("{line:?}"));
        // The library of JMeter has words of its own for a text that is not JSON.
        if let Some(at) =
            ["Expected to find an object", "the text is not JSON"].iter().find_map(|w| text.find(w))
        {
            text.truncate(at);
        }
        traces.entry(id).or_default().0.insert(label.clone(), text);
    }
    let log: Vec<String> = server.take_log().iter().map(|l| without_port(server, l)).collect();
    for line in without_boundaries(&log) {
        traces.entry(id_of(&line).unwrap_or_default()).or_default().1.push(line);
    }
    traces.values_mut().for_each(|(_, log)| log.sort());
    traces
}

#[test]
fn plans_of_all_kinds_of_elements() {
    let Some(home) = JMETER.as_deref() else { return };
    let is_long = std::env::var("LAB_CORPUS").is_ok_and(|text| text == "all");
    let home_text = home.to_str().expect("text");
    let folder = tempfile::tempdir().expect("a folder");
    let all = plans(is_long);
    // Tried, run, agree.
    let mut table: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (number, batch) in all.chunks(BATCH).enumerate() {
        let mut running: Vec<&Plan> = batch.iter().collect();
        let of_batch = are_accepted(folder.path(), home_text, &running);
        running.retain(|plan| of_batch || are_accepted(folder.path(), home_text, &[plan]));
        for plan in batch {
            let counts = table.entry(plan.kind).or_default();
            counts[0] += 1;
            if running.iter().any(|running| running.id == plan.id) {
                counts[1] += 1;
            } else {
                wrong.push(format!("{} {}: rejected", plan.kind, plan.id));
            }
        }
        let path = oracle::place(&format!("corpus-{number}"), &whole(&running), &[]);
        let mut agree: BTreeMap<&str, usize> = BTreeMap::new();
        let users: &[&str] = if is_long { &["1", "3"] } else { &["3"] };
        for users in users {
            let (theirs, ours) = (Server::start(), Server::start());
            let properties = |server: &Server| {
                [("port", server.port.to_string()), ("users", (*users).to_owned())]
                    .map(|(name, value)| (name.to_owned(), value))
            };
            let expected = traces(&by_jmeter(&path, &properties(&theirs)), &theirs);
            let (found, _) = by_weir(&path, &properties(&ours), &["--jmeter", home_text]);
            let found = traces(&found, &ours);
            for plan in &running {
                let (expected, found) = (expected.get(&plan.id), found.get(&plan.id));
                if expected == found {
                    *agree.entry(&plan.id).or_default() += 1;
                } else {
                    wrong.push(format!(
                        "{} {} with {users}:\n  JMeter {expected:?}\n  weir   {found:?}",
                        plan.kind, plan.id
                    ));
                }
            }
        }
        for plan in &running {
            let is_same = agree.get(plan.id.as_str()) == Some(&users.len());
            table.entry(plan.kind).or_default()[2] += usize::from(is_same);
        }
    }
    let mut sum = [0; 3];
    println!("{:<28}{:>7}{:>7}{:>7}", "kind of plan", "tried", "run", "agree");
    for (kind, counts) in &table {
        println!("{kind:<28}{:>7}{:>7}{:>7}", counts[0], counts[1], counts[2]);
        (0..3).for_each(|at| sum[at] += counts[at]);
    }
    println!("{:<28}{:>7}{:>7}{:>7}", "all", sum[0], sum[1], sum[2]);
    println!("{}", wrong.join("\n"));
    assert!(sum[1] * 100 >= sum[0] * 90, "{sum:?} run\n{}", wrong.join("\n"));
    assert!(sum[2] * 100 >= sum[1] * 97, "{sum:?} agree\n{}", wrong.join("\n"));
}
