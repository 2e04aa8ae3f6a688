//! One transaction: as it was, edited, to another route; its chain and its resolution.

use super::{
    Backend, KEY, ROUTE, TRACKER, as_it_was, call, place, post, refused, refused_later, resubmit,
    show, succeeds,
};
use crate::admin_api::{command, get, id, tokens};
use crate::harness::{KEYS, SECRET, Weir, unix_now};
use serde_json::{Value, json};

const SETTINGS: &str =
    "    resubmit: {headers: {set: {authorization: \"Bearer of-weir\"}}, idempotency_key: true}\n";

#[test]
fn it_goes_again_as_it_was_but_without_credentials() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config(SETTINGS, ROUTE, TRACKER)).start();
    let body = "{\"order\": \"A-17\"}";
    let headers = [("content-type", "application/json"), ("cookie", "s=1"), ("x-own", "mine")];
    let sent = call(&weir, "POST", "/orders/17?a=1&&b=%20", &headers, body);
    let first = backend.last();
    assert_eq!(first.header("x-api-key"), Some(KEY));
    assert_eq!(show(&weir, &sent)["resolution"], "open");

    backend.response(200);
    let attempt = succeeds(&weir, &sent, &as_it_was());
    let again = backend.last();
    assert_eq!((again.line(), &again.body), (first.line(), &first.body));
    assert_eq!(again.header("x-own"), Some("mine"));
    assert_eq!(again.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!((again.header("x-api-key"), again.header("cookie")), (None, None));
    assert_eq!(again.header("authorization"), Some("Bearer of-weir"));
    assert_eq!(again.header("weir-resubmission-of"), Some(&*sent));
    assert_eq!(again.header("idempotency-key"), Some(&*format!("\"{sent}\"")));
    assert_eq!(again.header("weir-transaction-id"), attempt["id"].as_str());

    let shown = show(&weir, &sent);
    assert_eq!((&shown["resolution"], &shown["attempts"][0]), (&json!("resubmitted"), &attempt));
    let history: Vec<&Value> =
        shown["history"].as_array().unwrap().iter().map(|change| &change["state"]).collect();
    assert_eq!(history, ["received", "failed", "resubmitted"]);
    assert_eq!((&attempt["number"], &attempt["who"]), (&json!(1), &json!("first")));
    // It is journaled like any other, on behalf of who sent it.
    let itself = show(&weir, attempt["id"].as_str().unwrap());
    assert_eq!(itself["resubmission_of"], sent.as_str());
    assert_eq!((&itself["consumer"], &itself["status"]), (&json!("acme"), &json!(200)));
    assert!(!itself.to_string().contains("of-weir"));
}

#[test]
fn a_chain_hangs_on_the_first_and_nothing_is_sent_twice_unasked() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent = place(&weir, "{}");
    let response = resubmit(&weir, &sent, &as_it_was()).json();
    assert_eq!((&response["state"], &response["status"]), (&json!("failed"), &json!(503)));
    refused(&weir, response["id"].as_str().unwrap(), &as_it_was(), "attempt");
    assert_eq!(show(&weir, &sent)["resolution"], "open");
    backend.response(404);
    assert_eq!(resubmit(&weir, &sent, &as_it_was()).json()["state"], "failed");
    backend.response(200);
    assert_eq!(succeeds(&weir, &sent, &as_it_was())["number"], 3);
    let before = backend.got().len();
    refused(&weir, &sent, &as_it_was(), "settled");
    assert_eq!(backend.got().len(), before);
    assert_eq!(succeeds(&weir, &sent, &json!({"again": true}))["number"], 4);
    assert_eq!(backend.got()[1].header("idempotency-key"), None);
    let attempts =
        |result: &str| weir.metric("weir_resubmission_attempts_total", &[&format!("\"{result}\"")]);
    assert_eq!(["succeeded", "failed", "refused", "unknown"].map(attempts), [2.0, 2.0, 0.0, 0.0]);
    let missing = resubmit(&weir, "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55", &as_it_was());
    assert_eq!(missing.status, 404);
}

#[test]
fn an_edited_one_is_sent_and_its_difference_kept_for_those_who_may_see_payloads() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config(SETTINGS, ROUTE, TRACKER)).start();
    let tokens = tokens(&weir);
    let sent = call(&weir, "POST", "/orders/17?a=1", &[("x-own", "mine"), ("x-b", "c")], "{}");
    backend.response(200);
    let wish = json!({
        "query": "a=quokka", "body": "{\"fixed\": \"quokka\"}",
        "headers": {"set": [{"name": "x-own", "value": "quokka"}], "remove": ["x-b"]},
    });
    let attempt = succeeds(&weir, &sent, &wish);
    let again = backend.last();
    assert_eq!(again.line(), "POST /orders/17?a=quokka HTTP/1.1");
    assert_eq!(
        (again.body.as_str(), again.header("x-own")),
        ("{\"fixed\": \"quokka\"}", Some("quokka"))
    );
    assert_eq!(again.header("x-b"), None);
    assert_eq!(again.header("content-length"), Some("19"));
    // Another request has another key.
    let own = format!("\"{}\"", attempt["id"].as_str().unwrap());
    assert_eq!(again.header("idempotency-key"), Some(&*own));
    let difference = json!({
        "query": true, "headers_set": ["x-own"], "headers_removed": ["x-b"],
        "body": {"before": 2, "after": 19},
    });
    for (role, token) in tokens.iter().enumerate() {
        let shown = get(&weir, &format!("/v1/transactions/{sent}"), token);
        let told = &shown.json()["attempts"][0]["difference"];
        assert_eq!(*told, if role == 0 { Value::Null } else { difference.clone() });
        let itself =
            get(&weir, &format!("/v1/transactions/{}", attempt["id"].as_str().unwrap()), token);
        assert_eq!(itself.text().contains("quokka"), role > 0, "{}", itself.text());
    }
    let audit = get(&weir, "/v1/audit", &tokens[3]).text();
    assert!(audit.contains("headers_set") && !audit.contains("quokka"), "{audit}");
}

#[test]
fn it_goes_to_another_route_that_is_listed() {
    let backend = Backend::start();
    let routes = "      - {op: place, post: \"/v1/{id}/lines/{line}\", path_normalization: {escaped_slashes: keep}, proxy: back, resubmit: {targets: [repair, other, fixed]}}\n      \
        - {op: repair, put: \"/v2/{line}/of/{id}\", path_normalization: {escaped_slashes: keep}, proxy: back}\n      \
        - {op: other, post: \"/v2/{unknown}\", proxy: back}\n      \
        - {op: fixed, post: /fixed, proxy: back}\n      \
        - {op: unlisted, post: /unlisted, proxy: back}\n";
    let weir = Weir::new(&backend.config("", routes, TRACKER)).start();
    let sent = call(&weir, "POST", "/orders/v1/17/lines/b%2Fc?x=1", &[], "{}");
    backend.response(200);
    for (to, reason) in [
        ("unlisted", "target-not-listed"),
        ("none", "target-not-listed"),
        ("other", "target-unfit"),
    ] {
        refused(&weir, &sent, &json!({"to": to}), reason);
    }
    let attempt = succeeds(&weir, &sent, &json!({"to": "repair"}));
    assert_eq!(attempt["to"], "repair");
    assert_eq!(backend.last().line(), "PUT /orders/v2/b%2Fc/of/17?x=1 HTTP/1.1");
    succeeds(&weir, &sent, &json!({"to": "fixed", "again": true}));
    assert_eq!(backend.last().line(), "POST /orders/fixed?x=1 HTTP/1.1");
}

#[test]
fn a_script_repairs_what_could_not_be_done() {
    let backend = Backend::start();
    let routes = "      - {op: place, post: \"/v1/{id}\", proxy: back, resubmit: {targets: [repair]}}\n      \
        - {op: repair, put: \"/repair/{id}\", script: {file: repair.js, fetch: [back]}}\n";
    let script = "export async function PUT(r) {
        const fixed = { ...r.json(), id: r.params.id, by: r.principal.consumer };
        tracker.property('repaired', r.headers.get('weir-resubmission-of'));
        const headers = { 'idempotency-key': r.headers.get('idempotency-key') };
        return fetch('http://back/fixed', { method: 'POST', body: fixed, headers });
    }";
    let config = backend.config(SETTINGS, routes, TRACKER);
    let weir = Weir::new(&config).file("repair.js", script).start();
    let sent = call(&weir, "POST", "/orders/v1/17", &[], "{\"amount\": 3}");
    backend.response(200);
    let attempt = succeeds(&weir, &sent, &json!({"to": "repair"}));
    let got = backend.last();
    assert_eq!(got.line(), "POST /fixed HTTP/1.1");
    assert_eq!(got.body, "{\"amount\":3,\"id\":\"17\",\"by\":\"acme\"}");
    assert_eq!(got.header("idempotency-key"), Some(&*format!("\"{sent}/repair\"")));
    assert_eq!(show(&weir, &sent)["resolution"], "resubmitted");
    let itself = show(&weir, attempt["id"].as_str().unwrap());
    assert_eq!(
        itself["payload"]["properties"][0],
        json!({"name": "repaired", "value": sent}),
        "{itself}"
    );
}

#[test]
fn who_has_a_token_is_known_by_name_and_scopes() {
    let backend = Backend::start();
    let auth = "tracker: {enabled: true}\nplans: {gold: {quota: {calls: 2, per: year}}}";
    let config = |scopes: &str| {
        format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{auth}\n\
             auth: {{idp: {{jwt: {{algorithms: HS256, key: \"file:secret\"}}}}}}\n\
             consumers: {{acme: {{plan: gold, match: {{auth: idp, when: 'claims.sub == \"anna\"'}}}}}}\n\
             upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n\
             apis: {{orders: {{base: /, auth: {{idp: {{scopes: [{scopes}]}}}}, routes: [{{path: \"/*\", proxy: back}}]}}}}\n",
            backend.upstream.addr
        )
    };
    let mut weir = Weir::new(&config("read")).file("secret", SECRET).start();
    let claims = json!({"sub": "anna", "exp": unix_now() + 600, "scope": "read write"});
    let bearer = format!("Bearer {}", KEYS.token("HS256", &claims));
    let sent = weir.connect().request("POST", "/a", &[("authorization", &*bearer)], "{}");
    let sent = id(&sent);
    backend.response(200);
    weir.reload(&config("read, admin"));
    refused(&weir, &sent, &as_it_was(), "scope-missing");
    weir.reload(&config("read, write"));
    let attempt = succeeds(&weir, &sent, &as_it_was());
    let itself = show(&weir, attempt["id"].as_str().unwrap());
    assert_eq!((&itself["principal"], &itself["consumer"]), (&json!("anna"), &json!("acme")));
    assert_eq!(backend.last().header("authorization"), None);
    // It was taken from the quota of now.
    refused_later(&weir, &sent, &json!({"again": true}), "limit-reached");
    assert_eq!(backend.got().len(), 2);
}

#[test]
fn what_became_of_it_is_said_by_hand_too() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let tokens = tokens(&weir);
    let failed = place(&weir, "{}");
    let args = ["resolve", &failed, "--as", "resolved", "--comment", "booked by hand", "--json"];
    let (ok, out, said) = command(&weir, &tokens[2], &args);
    assert!(ok, "{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["resolution"], "resolved");
    let shown = show(&weir, &failed);
    assert_eq!(shown["resolution"], "resolved");
    let change = &shown["history"][2];
    assert_eq!(
        (&change["who"], &change["comment"]),
        (&json!("operator"), &json!("booked by hand"))
    );
    refused(&weir, &failed, &as_it_was(), "settled");
    let (ok, out, _) = command(&weir, &tokens[0], &["show", &failed]);
    assert!(ok && out.contains("by operator: booked by hand"), "{out}");
    let path = format!("/v1/transactions/{failed}/resolution");
    assert_eq!(post(&weir, &path, &json!({"state": "open"})).status, 204);
    assert_eq!(post(&weir, &path, &json!({"state": "resubmitted"})).status, 400);
    assert_eq!(post(&weir, &path, &json!({"state": "open", "comment": "a\nb"})).status, 400);
    backend.response(200);
    let fine = place(&weir, "{}");
    let path = format!("/v1/transactions/{fine}/resolution");
    assert_eq!(post(&weir, &path, &json!({"state": "resolved"})).status, 409);
    succeeds(&weir, &failed, &as_it_was());
}
