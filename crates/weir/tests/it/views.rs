//! What the console keeps on the server: named views for all users; and business keys in search results.

use crate::admin_api::{ask, first_token, get, id, tokens};
use crate::harness::{self, Server, Signal, Weir, eventually};
use serde_json::{Value, json};

fn save(server: &Server, token: &str, name: &str, search: &str) -> u16 {
    let body = json!({"search": search}).to_string();
    ask(server, "PUT", &format!("/v1/views/{name}"), Some(token), &body).status
}

#[test]
fn views_are_those_of_all_users_and_kept() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0]
    );
    let mut weir = Weir::new(&config).start();
    let all = tokens(&weir);
    let (viewer, operator) = (&all[0], &all[2]);
    assert_eq!(save(&weir, viewer, "mine", "q=a"), 403);
    assert_eq!(save(&weir, operator, "Failures%20today", "q=status%3A500&range=24h"), 204);
    assert_eq!(save(&weir, operator, "b", "q=old"), 204);
    assert_eq!(save(&weir, operator, "b", "q=new"), 204);
    for (name, search) in [("%0A", "q=a"), ("%E2%80%AE", "q=a"), ("a", "q=<script> x")] {
        assert_eq!(save(&weir, operator, name, search), 400, "{name} {search}");
    }
    weir.signal(Signal::TERM);
    weir.wait();
    weir.restart(&[]);
    let hidden = get(&weir, "/v1/views", viewer).json();
    assert_eq!(hidden.as_array().unwrap().len(), 1, "words need payloads: {hidden}");
    let views = get(&weir, "/v1/views", operator).json();
    assert_eq!(views.as_array().unwrap().len(), 2, "{views}");
    assert_eq!(
        (&views[0]["name"], &views[0]["who"]),
        (&json!("Failures today"), &json!("operator"))
    );
    assert_eq!(views[1]["search"], "q=new");
    assert_eq!(ask(&weir, "DELETE", "/v1/views/b", Some(viewer), "").status, 403);
    assert_eq!(ask(&weir, "DELETE", "/v1/views/b", Some(operator), "").status, 204);
    assert_eq!(ask(&weir, "DELETE", "/v1/views/b", Some(operator), "").status, 404);
    let audit = get(&weir, "/v1/audit?action=save-view", &first_token(&weir)).json();
    assert_eq!((&audit[0]["subject"], &audit[0]["details"]), (&json!("b"), &json!("q=new")));
}

#[test]
fn results_have_business_keys_for_those_who_may_see_payloads() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\ntracker: {{enabled: true, keys: {{order: \"$.order\"}}}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0]
    );
    let weir = Weir::new(&config).start();
    let mut client = weir.connect();
    let headers = [("content-type", "application/json")];
    let sent = id(&client.request("POST", "/a", &headers, "{\"order\":\"A-4711\"}"));
    eventually("it is indexed", || weir.metric("weir_index_lag_seconds", &[]) == 0.0);
    let all = tokens(&weir);
    assert_eq!(get(&weir, "/v1/transactions?keys=true", &all[0]).status, 403);
    let found = |path: &str| get(&weir, path, &all[1]).json()["transactions"][0].clone();
    let with = found("/v1/transactions?keys=true");
    assert_eq!(with["id"], sent);
    assert_eq!(with["keys"], json!([{"name": "order", "value": "A-4711"}]), "{with}");
    assert_eq!(found("/v1/transactions")["keys"], Value::Null);
    let audit = get(&weir, "/v1/audit?action=search", &first_token(&weir)).json();
    assert_eq!(audit.as_array().unwrap().len(), 1, "reading keys is audited: {audit}");
}
