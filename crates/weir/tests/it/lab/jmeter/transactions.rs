//! Assertions of transactions that replace their samples, and actions after failures, compared with
//! JMeter.

use super::compare_text;
use super::elements::{el, get, get_with, group, list, plan};
use super::http::request;

/// A response assertion: its field, its type and its pattern.
fn response(field: &str, kind: &str, pattern: &str) -> String {
    let patterns = list("Asserion.test_strings", &[pattern]);
    let field = format!("Assertion.{field}");
    let properties = [
        ("raw:", patterns.as_str()),
        ("Assertion.test_field", &field),
        ("int:Assertion.test_type", kind),
    ];
    el("ResponseAssertion", "assert", &properties, "")
}

fn size(field: &str, bytes: &str) -> String {
    let properties = [
        ("SizeAssertion.size", bytes),
        ("int:SizeAssertion.operator", "3"),
        ("Assertion.test_field", field),
    ];
    el("SizeAssertion", "size", &properties, "")
}

fn parent(name: &str, below: &str) -> String {
    let properties = [
        ("TransactionController.parent", "true"),
        ("TransactionController.includeTimers", "false"),
    ];
    el("TransactionController", name, &properties, below)
}

/// Response assertions with their names: on each field, with and without what it should have.
pub(super) fn response_assertions() -> Vec<(String, String)> {
    let fields = [
        "response_data",
        "response_code",
        "response_message",
        "response_headers",
        "sample_label",
        "request_headers",
        "request_data",
    ];
    let kinds = [("2", "."), ("6", ".*"), ("8", ""), ("12", ""), ("16", "nowhere"), ("34", "9z9")];
    let pairs = fields.iter().flat_map(|field| kinds.map(|(kind, pattern)| (field, kind, pattern)));
    pairs
        // The order of fields of requests differs.
        .filter(|(field, kind, _)| (**field, *kind) != ("request_headers", "8"))
        .map(|(field, kind, pattern)| (format!("{field} {kind}"), response(field, kind, pattern)))
        .collect()
}

#[test]
fn assertions_of_samples_without_request_or_response() {
    let debug = |name: &str, shown: &str, below: &str| {
        let on = |part: &str| if shown == part { "true" } else { "false" };
        let properties = [
            ("displayJMeterVariables", on("variables")),
            ("displayJMeterProperties", on("properties")),
            ("displaySystemProperties", on("system")),
        ];
        // What JMeter lists of itself is not compared.
        el("DebugSampler", &format!("debug {name} {shown}"), &properties, below)
    };
    let mut inside = String::new();
    for (name, assertion) in response_assertions() {
        inside += &debug(&name, "nothing", &assertion);
        if !name.starts_with("response_data") {
            for shown in ["variables", "properties", "system"] {
                inside += &debug(&name, shown, &assertion);
            }
        }
        let transaction = parent(&format!("transaction {name}"), &get("a"));
        inside += &el("GenericController", "scope", &[], &(assertion.clone() + &transaction));
        for method in ["HEAD", "OPTIONS"] {
            let name = format!("{name} of {method}");
            inside += &request(&name, method, "/text", &[], ("", ""), &assertion);
        }
    }
    compare_text("without-data", &plan(&group("G", "1", "1", &[], &inside)), &[]);
}

#[test]
fn assertions_of_transactions_and_actions_after_failures() {
    let two = |a: &str, b: &str| get(a) + &get(b);
    let body = response("response_data", "16", "status");
    let code = response("response_code", "8", "200");
    let duration = el("DurationAssertion", "time", &[("DurationAssertion.duration", "150")], "");
    let json = el("JSONPathAssertion", "json", &[("JSON_PATH", "$.s")], "");
    let fails = get_with("fails", "/status/500", "");
    let cases = [
        body.clone() + &parent("body", &two("a", "b")),
        code.clone() + &parent("code", &two("c", "d")),
        response("response_data", "20", "nope") + &parent("not", &get("e")),
        code + &parent("code fails", &(get("f") + &fails)),
        parent("inside", &(response("response_message", "2", "OK") + &get("g"))),
        duration + &parent("time", &get_with("slow", "/slow/100", "").repeat(2)),
        body + &parent("outer", &parent("inner", &get("h"))),
        size("SizeAssertion.response_network_size", "100") + &parent("size", &two("i", "j")),
        size("SizeAssertion.response_data", "3") + &parent("body size", &two("k", "l")),
        json + &parent("json", &get_with("m", "/json", "")),
        response("response_headers", "16", "HTTP") + &parent("head", &get("n")),
    ];
    // Result status action handlers.
    let handler =
        |action: &str| el("ResultAction", "handler", &[("int:OnError.action", action)], "");
    let looped = |below: &str| {
        let properties =
            [("LoopController.loops", "3"), ("LoopController.continue_forever", "true")];
        el("LoopController", "loop", &properties, below)
    };
    let cut = |name: &str| fails.clone() + &get(name);
    let handlers = [
        handler("0") + &cut("goes on"),
        handler("1") + &cut("never"),
        handler("4") + &looped(&cut("next iteration")),
        handler("5") + &looped(&(get("in loop") + &cut("next of loop"))) + &get("after next"),
        handler("6") + &looped(&(get("in loop") + &cut("break"))) + &get("after break"),
        handler("4") + &parent("unseen", &cut("not cut")),
        parent("seen", &(handler("4") + &cut("also not cut"))),
    ];
    let cases = cases.into_iter().chain(handlers).collect::<Vec<_>>();
    let groups = cases
        .iter()
        .enumerate()
        .map(|(at, below)| group(&format!("Case {at}"), "${__P(users)}", "2", &[], below));
    compare_text("transactions", &plan(&groups.collect::<String>()), &[]);
}
