//! Recorded transactions sent again: one, edited, elsewhere, in bulk; who may, what is refused, and
//! what a crash leaves.

mod crashes;
mod doors;
mod jobs;
mod lost;
mod rejections;
mod retries;
mod single;
mod upstream;

use crate::admin_api::{ask, first_token, get};
use crate::harness::{Response, Server, Upstream, eventually, key_hash};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

/// A key of the consumer `acme`.
const KEY: &str = "a key of acme";

/// An upstream that fails until it is healed, and notes what it gets.
struct Backend {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    got: Arc<Mutex<Vec<Got>>>,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Got {
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

impl Backend {
    fn start() -> Self {
        let status = Arc::new(AtomicU16::new(503));
        let got = Arc::new(Mutex::new(Vec::new()));
        let (response, notes) = (Arc::clone(&status), Arc::clone(&got));
        let upstream = Upstream::start(move |_, peer| {
            loop {
                let Some(body) = peer.request() else { return };
                let head = peer.last_head();
                let body = String::from_utf8_lossy(&body).into_owned();
                notes.lock().unwrap().push(Got { head, body });
                let status = response.load(Ordering::SeqCst);
                if status == 0 {
                    return peer.hang();
                }
                peer.send(format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok"));
            }
        });
        Self { upstream, status, got }
    }

    /// From now on it answers with this; 0 is never.
    fn response(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    fn last(&self) -> Got {
        self.got().pop().expect("a request")
    }

    /// How often each transaction came again.
    fn again(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for got in self.got() {
            if let Some(of) = got.header("weir-resubmission-of") {
                *counts.entry(of.to_owned()).or_default() += 1;
            }
        }
        counts
    }

    /// A configuration with an API `orders`, its routes and more lines at the top level.
    fn config(&self, api: &str, routes: &str, more: &str) -> String {
        let hash = key_hash(KEY);
        format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\n{more}\n\
             auth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
             consumers: {{acme: {{api_keys: [\"{hash}\"]}}}}\n\
             upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n\
             apis:\n  orders:\n    base: /orders\n    auth: keys\n{api}    routes:\n{routes}",
            self.upstream.addr,
        )
    }
}

const TRACKER: &str = "tracker: {enabled: true}";
const ROUTE: &str = "      - {op: all, path: \"/*\", proxy: back}\n";

/// A request of `acme`; gives its transaction id.
fn call(weir: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut client = weir.connect();
    let headers = [headers, &[("x-api-key", KEY)]].concat();
    crate::admin_api::id(&client.request(method, path, &headers, body))
}

fn place(weir: &Server, body: &str) -> String {
    call(weir, "POST", "/orders/17", &[("content-type", "application/json")], body)
}

/// Asks for something with the first token, which may everything.
fn post(weir: &Server, path: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(weir, "POST", path, Some(&first_token(weir)), &body)
}

fn resubmit(weir: &Server, id: &str, wish: &Value) -> Response {
    post(weir, &format!("/v1/transactions/{id}/resubmit"), wish)
}

/// It succeeds; gives the attempt.
fn succeeds(weir: &Server, id: &str, wish: &Value) -> Value {
    let response = resubmit(weir, id, wish);
    assert_eq!(response.status, 200, "{}", response.text());
    let attempt = response.json();
    assert_eq!(attempt["state"], "succeeded", "{attempt}");
    attempt
}

/// It is refused for this reason, before anything is sent.
fn refused(weir: &Server, id: &str, wish: &Value, reason: &str) {
    let response = resubmit(weir, id, wish);
    assert_eq!(response.status, 409, "{reason}: {}", response.text());
    let problem = response.json();
    assert_eq!(problem["reason"], reason, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(words(reason)), "{detail}");
}

/// What is said, among others, when it is refused for this reason.
fn words(reason: &str) -> &'static str {
    match reason {
        "masked" => "was masked before it was recorded; it can be sent only with that edited",
        "truncated" => "only the beginning of its body was recorded",
        "withheld" => "its body was not recorded, as it could not be masked",
        "aborted" => "its body did not come to its end, or that is not known",
        "unrecorded" => "its headers or body were not recorded",
        "not-kept" => "it is not kept here",
        "expired" => "its headers and body were dropped because of their age",
        "damaged" => "some of its records were lost; it can be sent only with a body of yours",
        "attempt" => "it is itself an attempt",
        "sending" => "an attempt is under way",
        "unknown" => "it is not known whether the last attempt was sent",
        "settled" => "it has been resubmitted, resolved or dismissed",
        "succeeded" => "it was answered with success",
        "consumer-gone" => "its consumer is not in the configuration any more",
        "scope-missing" => "the route asks for a scope now that its sender was not granted",
        "not-admitted" => "its sender would not be let in by the route now",
        "route-gone" => "its API has no route for it any more",
        "target-not-listed" => "the route does not list that one in `resubmit.targets`",
        "target-unfit" => "the other route takes another method",
        "limit-reached" => "a rate limit or quota of its consumer is exhausted; try later",
        "rejected:address-refused" => "weir itself does not take it: address-refused",
        "rejected:body-too-large" => "weir itself does not take it: body-too-large",
        other => panic!("{other} has no words"),
    }
}

/// It is refused for this reason when it has come to that.
fn refused_later(weir: &Server, id: &str, wish: &Value, reason: &str) {
    let attempt = resubmit(weir, id, wish).json();
    assert_eq!((&attempt["state"], &attempt["reason"]), (&json!("refused"), &json!(reason)));
    assert!(attempt["words"].as_str().unwrap().contains(words(reason)), "{attempt}");
}

fn show(weir: &Server, id: &str) -> Value {
    let response = get(weir, &format!("/v1/transactions/{id}"), &first_token(weir));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// Makes a job; gives its number.
fn job(weir: &Server, new: &Value) -> i64 {
    let response = post(weir, "/v1/jobs", new);
    assert_eq!(response.status, 201, "{}", response.text());
    response.json()["number"].as_i64().unwrap()
}

fn look(weir: &Server, number: i64) -> Value {
    get(weir, &format!("/v1/jobs/{number}"), &first_token(weir)).json()
}

/// Waits until a job is in this state.
fn wait_for(weir: &Server, number: i64, state: &str) -> Value {
    eventually(&format!("job {number} is {state}"), || look(weir, number)["state"] == state);
    look(weir, number)
}

/// How many transactions of a job are in this state for this reason.
fn count(job: &Value, state: &str, reason: &str) -> u64 {
    let all = job["transactions"].as_array().unwrap().iter();
    let is_it = |one: &&Value| {
        one["state"] == state && one["reason"].as_str().unwrap_or_default() == reason
    };
    all.filter(is_it).map(|one| one["count"].as_u64().unwrap()).sum()
}

/// Waits until all is indexed.
fn indexed(weir: &Server) {
    eventually("everything is indexed", || weir.metric("weir_index_lag_seconds", &[]) == 0.0);
}

fn as_it_was() -> Value {
    json!({})
}
