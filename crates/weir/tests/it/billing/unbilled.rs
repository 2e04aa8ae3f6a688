//! What weir itself rejects or fails is not billed, recorded or not, unless the plan says so.

use crate::admin_api::{first_token, get};
use crate::harness::{Server, Signal, Weir, eventually, key_hash, weir};
use serde_json::{Value, json};

/// An upstream that answers with any status, and a server with consumers whose fifth call and all later ones
/// are rejected.
fn servers() -> (Server, Server) {
    let routes: String = ["one", "three"]
        .iter()
        .map(|api| {
            format!(
                "      - {{get: /{api}/good, reply: {{text: hi}}}}\n      \
                 - {{get: /{api}/broken, reply: {{status: 503, text: x}}}}\n      \
                 - {{get: /{api}/throttled, reply: {{status: 429, text: x}}}}\n"
            )
        })
        .collect();
    let upstream = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\napis:\n  all:\n    base: /\n    routes:\n{routes}"
    );
    let upstream = Weir::new(&upstream).start();
    let price = "per_call: \"0.125\", currency: EUR";
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans:\n  gold: {{rate: 5/d, price: {{{price}}}}}\n  \
         all: {{rate: 5/d, price: {{{price}, bill_gateway_errors: true}}}}\n\
         consumers:\n  acme: {{plan: gold, api_keys: [\"{}\"]}}\n  \
         beta: {{plan: all, api_keys: [\"{}\"]}}\n  gamma: {{plan: gold, api_keys: [\"{}\"]}}\n\
         upstreams: {{up: {{targets: [\"http://{}\"]}}, gone: {{targets: [\"http://127.0.0.1:1\"]}}}}\n\
         apis:\n  one: {{base: /one, auth: keys, routes: [{{op: up, get: \"/*\", proxy: up}}]}}\n  \
         two: {{base: /two, auth: keys, routes: [{{op: gone, get: \"/*\", proxy: gone}}]}}\n  \
         three: {{base: /three, auth: keys, capture: none, routes: [{{op: up, get: \"/*\", proxy: up}}, \
         {{op: gone, get: /gone, proxy: gone}}]}}\n\
         tracker: {{enabled: true}}\nmonitor: {{counts: {{rejected: true}}}}\n",
        key_hash("acme"),
        key_hash("beta"),
        key_hash("gamma"),
        upstream.listen[0],
    );
    (upstream, Weir::new(&config).start())
}

fn call(server: &Server, key: &str, calls: [(&str, u16); 7]) {
    let mut client = server.connect();
    for (path, status) in calls {
        assert_eq!(client.request("GET", path, &[("x-key", key)], "").status, status, "{path}");
    }
}

fn invoices(server: &Server) -> Vec<Value> {
    let period = jiff::Timestamp::now().strftime("%Y-%m").to_string();
    let output = weir(server.dir(), &["invoice", "--period", &period, "--json", "--data", "data"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn gateway_errors_are_shown_and_not_billed_unless_the_plan_says_so() {
    let (_upstream, mut server) = servers();
    let calls = [
        ("/one/good", 200),
        ("/one/throttled", 429),
        ("/one/broken", 503),
        ("/two/x", 502),
        ("/one/good", 200),
        ("/one/good", 429),
        ("/two/x", 429),
    ];
    call(&server, "acme", calls);
    call(&server, "beta", calls);
    // Without a transaction: only what is counted is recorded.
    let hidden = calls.map(|(path, status)| match path {
        "/two/x" => ("/three/gone", status),
        path => (Box::leak(path.replace("/one", "/three").into_boxed_str()) as &str, status),
    });
    call(&server, "gamma", hidden);
    eventually("all are counted", || server.metric("weir_monitor_counted_total", &[]) >= 21.0);
    let made = invoices(&server);
    let [acme, beta, gamma] = &made[..] else { panic!("{made:?}") };
    // The responses of the upstream are billed, whatever their status.
    assert_eq!(acme["totals"], json!([{"currency": "EUR", "exact": "0.5", "due": "0.50"}]));
    let excluded = |invoice: &Value| {
        let lines = invoice["unbilled"]["lines"].as_array().unwrap().iter();
        lines
            .map(|line| {
                let number = |name: &str| line[name].as_u64().unwrap();
                (line["operation"].as_str().unwrap().to_owned(), number("status"), number("calls"))
            })
            .collect::<Vec<_>>()
    };
    let expected = [("up", 429, 1), ("gone", 429, 1), ("gone", 502, 1)];
    assert_eq!(
        excluded(acme),
        expected.map(|(name, status, calls)| (name.to_owned(), status, calls))
    );
    let total = json!([{"currency": "EUR", "exact": "0.375", "rounded": "0.38"}]);
    assert_eq!(acme["unbilled"]["totals"], total);
    assert_eq!((&beta["totals"][0]["due"], excluded(beta).len()), (&json!("0.88"), 0));
    assert_eq!((&gamma["totals"], &gamma["unbilled"]["totals"]), (&acme["totals"], &total));
    assert_eq!(excluded(gamma).len(), 3);

    // Every format has it.
    let token = first_token(&server);
    let period = acme["period"].as_str().unwrap();
    for (format, text) in [
        ("csv", ",one,up,,,1,,,EUR,0.125,0.13,429\r\n"),
        ("html", "Not billed in all</td><td class=\"n\">0.38 EUR"),
    ] {
        let path = format!("/v1/invoices?period={period}&consumer=acme&format={format}");
        let told = get(&server, &path, &token).text();
        assert!(told.contains(text), "{format}: {told}");
    }
    let table = weir(server.dir(), &["invoice", "--period", period, "--data", "data"]);
    let told = String::from_utf8(table.stdout).unwrap();
    assert!(told.contains("not billed: 0.38 EUR (exact: 0.375)"), "{told}");
    assert!(told.contains("3 invoices\ndue: 1.88 EUR (exact: 1.875)"), "{told}");

    // Counted again, they are the same.
    server.signal(Signal::TERM);
    server.wait();
    let again = weir(server.dir(), &["monitor", "rebuild", "--json", "--data", "data"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(invoices(&server), made);
}
