//! The history of the configuration: which one was in force since when, what each changed, and which one handled
//! a transaction.

use crate::admin_api::{ask, command, get, tokens};
use crate::harness::{Server, Weir, eventually};
use serde_json::Value;

const CONFIG: &str = "\
listen: [{addr: \"127.0.0.1:0\"}]
workers: 2
tracker: {enabled: true}
apis:
  orders:
    base: /
    resubmit: {headers: {set: {authorization: \"Bearer hush-hush\"}}}
    routes:
      - {get: /a, op: first, reply: {text: one}}
      - {get: /b, op: second, reply: {text: two, status: 500}}
";

fn change(server: &Server, from: &str, to: &str) {
    let path = server.dir().join("weir.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
}

fn history(server: &Server, token: &str) -> Vec<Value> {
    let response = get(server, "/v1/configuration/history", token);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["configurations"].as_array().unwrap().clone()
}

#[test]
fn each_configuration_is_kept_with_what_it_changed_and_named_by_its_transactions() {
    let server = Weir::new(CONFIG).start();
    let [viewer, _, operator, admin] = &tokens(&server)[..] else { panic!() };
    assert_eq!(server.connect().get("/b").status, 500);
    change(&server, "status: 500", "status: 200");
    let reload = |server: &Server| ask(server, "POST", "/v1/configuration/reload", Some(admin), "");
    assert_eq!(reload(&server).json()["taken"], true);
    assert_eq!(server.connect().get("/b").status, 200);
    // The same files again are no other configuration.
    assert_eq!(reload(&server).json()["taken"], true);

    let all = history(&server, viewer);
    let [second, first] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&first["by"], &first["until"]), (&"start".into(), &second["time"]));
    assert_eq!(second.get("until"), None);
    let short = |one: &Value| one["configuration"].as_str().unwrap().to_owned();
    assert!(second["digest"].as_str().unwrap().starts_with(&short(second)));

    let path = format!("/v1/configuration/history/{}", second["number"]);
    assert_eq!(get(&server, &path, viewer).status, 403, "texts are for operators");
    let details = get(&server, &path, operator);
    assert!(!details.text().contains("hush"), "{}", details.text());
    let details = details.json();
    assert_eq!(&details["compared"], first);
    let value = &details["changes"][0]["values"][0];
    assert_eq!(value["path"], "apis.orders.routes[get /b].reply.status");
    assert_eq!((&value["before"], &value["after"]), (&"500".into(), &"200".into()));
    let back =
        format!("/v1/configuration/history/{}?against={}", first["number"], second["number"]);
    let back = get(&server, &back, operator).json();
    assert_eq!(back["changes"][0]["values"][0]["after"], "500");
    assert_eq!(get(&server, "/v1/configuration/history/99", operator).status, 404);

    for (configuration, status) in [(short(first), 500), (short(second), 200)] {
        let path = format!("/v1/transactions?q=configuration:{configuration}");
        eventually("the transaction is found", || {
            let found = get(&server, &path, viewer).json();
            let found = found["transactions"].as_array().unwrap().clone();
            found.len() == 1
                && found[0]["status"] == status
                && found[0]["configuration"] == configuration.as_str()
        });
    }
}

#[test]
fn the_history_survives_a_restart_and_is_shown_by_the_command() {
    let mut server = Weir::new(CONFIG).start();
    change(&server, "text: one", "text: uno");
    server.kill();
    server.restart(&[]);
    let [viewer, _, operator, _] = &tokens(&server)[..] else { panic!() };
    let all = history(&server, viewer);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0]["by"], "start");

    let (ok, out, err) = command(&server, viewer, &["history"]);
    assert!(ok && out.lines().count() == 3, "{out}{err}");
    let number = all[0]["number"].to_string();
    let (ok, out, err) = command(&server, operator, &["history", &number]);
    assert!(ok, "{err}");
    assert!(out.contains("apis.orders.routes[get /a].reply.text: one → uno"), "{out}");
    assert!(out.contains("+      - {get: /a, op: first, reply: {text: uno}}"), "{out}");
    let (_, out, _) = command(&server, operator, &["history", &number, "--text"]);
    assert!(out.contains("reply: {text: uno}") && !out.contains("hush"), "{out}");
}
