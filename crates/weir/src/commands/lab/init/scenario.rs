//! The text of a scenario. Values are written as JSON, which is YAML.

use super::flow::{self, Created};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::fmt::Write as _;
use weir_config::{CallCredential, ExampleBody, ExampleCall, ExampleCalls};

/// A scenario, and the file of its credentials.
pub(super) struct Written {
    pub(super) text: String,
    /// CSV with placeholders.
    pub(super) credentials: Option<String>,
}

/// Characters that are encoded in a part of a URL.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Placeholder of a credential.
const PLACEHOLDER: &str = "REPLACE-ME";

/// The load of a new scenario.
const LOAD: &str = "\
# Ten users, each with a second of think time. For a given rate instead (open model):
# load: {executor: constant-arrival-rate, rate: 50/s, duration: 60s}
# For the highest number of users: load: {executor: find-max, of: users, slo: {errors: 1%, p95: 500ms}}
load: {executor: constant-vus, vus: 10, ramp: 5s, duration: 60s}
# The run fails unless these are met.
thresholds: [\"error-rate<=1%\", \"p95<500ms\"]
# The run ends early if the server suffers.
stop: [\"error-rate>50% for 10s\"]
";

/// A scenario for one URL.
pub(super) fn of_url(base: &str, path: &str) -> String {
    format!(
        "# weir lab run FILE; all keys: weir lab schema\nlab: 1\ntarget: {{base: {}}}\n\
         # A user sends these requests one after the other.\nrequests:\n  \
         - get: {}\n    checks: [{{status: 2xx}}]\n    think: 1s\n{LOAD}",
        quoted(base),
        quoted(path)
    )
}

/// A scenario for the operations of a document named `from`.
pub(super) fn of_calls(calls: &ExampleCalls, from: &str, target: &str, file: &str) -> Written {
    let base = calls.base.trim_end_matches('/');
    let mut schemes: Vec<&str> = Vec::new();
    let mut known: Vec<Created> = Vec::new();
    let mut requests = String::new();
    for call in flow::ordered(&calls.calls) {
        for name in call.credentials.iter().map(scheme) {
            if !schemes.contains(&name) {
                schemes.push(name);
            }
        }
        let created = flow::created(call, &calls.calls);
        request(&mut requests, call, base, &known, created.as_ref());
        known.extend(created);
    }
    let mut text = format!(
        "# Requests of {}; all keys: weir lab schema\nlab: 1\ntarget: {{base: {}}}\n",
        one_line(from),
        quoted(target)
    );
    let credentials = (!schemes.is_empty()).then(|| {
        text.push_str("# Secrets are in this file only, not in results.\n");
        let _ = writeln!(text, "feeders: {{credentials: {{csv: {}}}}}", quoted(file));
        let columns: Vec<String> = schemes.iter().map(|name| column(name)).collect();
        let rows = vec![PLACEHOLDER; schemes.len()];
        format!("{}\n{}\n", columns.join(","), rows.join(","))
    });
    for (name, why) in &calls.left_out {
        let _ = writeln!(text, "# Left out: {}: {}", one_line(name), one_line(why));
    }
    text.push_str("# A user sends these requests one after the other.\nrequests:\n");
    text.push_str(&requests);
    text.push_str(LOAD);
    Written { text, credentials }
}

fn request(
    out: &mut String,
    call: &ExampleCall,
    base: &str,
    known: &[Created],
    created: Option<&Created>,
) {
    let method = call.method.to_ascii_lowercase();
    let _ = writeln!(out, "  - name: {}", quoted(&call.name));
    let _ = writeln!(out, "    {method}: {}", Value::from(target(call, base, known)));
    let headers = headers(call);
    if !headers.is_empty() {
        let fields: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{}: {value}", Value::from(&**name)))
            .collect();
        let _ = writeln!(out, "    headers: {{{}}}", fields.join(", "));
    }
    match &call.body {
        Some(ExampleBody::Json(_, value)) => {
            let _ = writeln!(out, "    json: {}", escaped(&value.to_string()));
        }
        Some(ExampleBody::Form(fields)) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
                .collect();
            let _ = writeln!(out, "    body: {{form: {{{}}}}}", fields.join(", "));
        }
        Some(ExampleBody::Text(_, text)) => {
            let _ = writeln!(out, "    body: {}", quoted(text));
        }
        None => {}
    }
    let statuses = match call.statuses.len() {
        0 => "2xx".to_owned(),
        _ => format!("[{}]", call.statuses.join(", ")),
    };
    let mut checks = format!("{{status: {statuses}}}");
    if !call.content_types.is_empty() {
        let types: Vec<String> = call
            .content_types
            .iter()
            .map(|media| media.replace('.', "\\.").replace('+', "\\+"))
            .collect();
        let pattern = format!("(?i)content-type: *({})", types.join("|"));
        let _ = write!(checks, ", {{header: {}}}", quoted(&pattern));
    }
    let _ = writeln!(out, "    checks: [{checks}]");
    if let Some(Created { variable, extractor, .. }) = created {
        let _ = writeln!(out, "    extract: {{{variable}: {{{extractor}}}}}");
    }
    out.push_str("    think: 1s\n");
}

/// Path and query, with variables for values that earlier requests created.
fn target(call: &ExampleCall, base: &str, known: &[Created]) -> String {
    let mut path = call.path.clone();
    for (name, value) in &call.path_values {
        let text = match flow::variable(&call.path, name, known) {
            Some(variable) => format!("${{{variable}}}"),
            None => encoded(&plain(value)),
        };
        path = path.replace(&format!("{{{name}}}"), &text);
    }
    let mut query: Vec<String> = call
        .query
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    for credential in &call.credentials {
        if let CallCredential::Query(name, parameter) = credential {
            query.push(format!("{}={}", encoded(parameter), variable_of(name)));
        }
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{base}{path}{query}")
}

/// Header fields with their values in YAML.
fn headers(call: &ExampleCall) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| (name.clone(), quoted(value))).collect();
    let mut add = |name: &str, value: String| {
        fields.push((name.to_owned(), Value::from(value).to_string()));
    };
    match &call.body {
        Some(ExampleBody::Json(media, _)) if media != "application/json" => {
            add("content-type", media.clone());
        }
        Some(ExampleBody::Text(media, _)) => add("content-type", media.clone()),
        _ => {}
    }
    if !call.cookies.is_empty() {
        let cookies: Vec<String> =
            call.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        add("cookie", escaped(&cookies.join("; ")));
    }
    for credential in &call.credentials {
        match credential {
            CallCredential::Header(scheme, name) => add(name, variable_of(scheme)),
            CallCredential::Bearer(scheme) => {
                add("authorization", format!("Bearer {}", variable_of(scheme)));
            }
            CallCredential::Basic(scheme) => {
                add("authorization", format!("Basic {}", variable_of(scheme)));
            }
            CallCredential::Query(..) => {}
        }
    }
    fields
}

fn scheme(credential: &CallCredential) -> &str {
    match credential {
        CallCredential::Header(name, _)
        | CallCredential::Query(name, _)
        | CallCredential::Bearer(name)
        | CallCredential::Basic(name) => name,
    }
}

/// The variable of a scheme.
fn variable_of(scheme: &str) -> String {
    format!("${{credentials.{}}}", column(scheme))
}

/// The name of a scheme as the name of a column.
fn column(scheme: &str) -> String {
    let name: String =
        scheme.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("key{name}") }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}

/// A text without variables.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// A text without variables, in quotes.
fn quoted(text: &str) -> String {
    Value::from(escaped(text)).to_string()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}
