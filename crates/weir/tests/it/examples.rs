//! The examples, as they are in the repository.

use crate::harness::{self, Response, Server, Weir, eventually, weir};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// An example on a free port, with keys of its own if it needs some, in front of `echo`.
fn start(name: &str, settings: &[&str]) -> Server {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let config = std::fs::read_to_string(folder.join("weir.yaml")).expect("the example is there");
    let mut args = vec!["--set", "listen.0.addr=127.0.0.1:0"];
    for setting in settings {
        args.extend(["--set", setting]);
    }
    let server = Weir::new(&config).args(&args);
    for entry in std::fs::read_dir(&folder).expect("it is a folder") {
        let path = entry.expect("it is readable").path();
        // What a run of it has left behind, and what is written already.
        let left = ["weir.yaml", "data", "keys"].iter().any(|name| path.ends_with(name));
        if !left {
            harness::run(Command::new("cp").arg("-r").arg(path).arg(server.dir()), b"");
        }
    }
    if config.contains("keys/jwks.json") {
        let made = weir(server.dir(), &["jwt", "keypair", "keys", "--alg", algorithm(&config)]);
        assert!(made.status.success(), "{made:?}");
    }
    server.start()
}

fn algorithm(config: &str) -> &'static str {
    if config.contains("ES256") { "ES256" } else { "RS256" }
}

/// A setting that points an upstream at the echo backend.
fn target(upstream: &str, echo: &Server) -> String {
    format!("upstreams.{upstream}.targets.0=http://{}", echo.listen[0])
}

fn token(server: &Server, args: &[&str]) -> String {
    let output = weir(server.dir(), &[&["jwt", "mint", "--key", "keys/key.pem"], args].concat());
    assert!(output.status.success(), "{output:?}");
    format!("Bearer {}", String::from_utf8_lossy(&output.stdout).trim())
}

#[test]
fn martini_responds_with_52_and_54_bytes_and_xml() {
    let server = start("martini", &[]);
    let mut client = server.connect();
    let toro = client.get("/api/examples-services/sayHello");
    assert_eq!(toro.text(), "{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}");
    assert_eq!((toro.status, toro.body.len()), (200, 52));
    let martini = client.get("/api/test/sayHello");
    assert_eq!(martini.text(), "{\n    \"result\": \"OK\",\n    \"message\": \"Hello, world!\"\n}");
    assert_eq!((martini.status, martini.body.len()), (200, 54));
    let accept = [("Accept", "application/xml")];
    let xml = client.request("GET", "/api/test/sayHello", &accept, "");
    assert_eq!(xml.header("content-type"), Some("application/xml"));
    assert!(xml.text().contains("<message>Hello, world!</message>"), "{}", xml.text());
    let script = client.get("/api/script/sayHello");
    assert_eq!((script.status, script.text()), (200, toro.text()));
    let accept = [("Accept", "image/png")];
    assert_eq!(client.request("GET", "/api/test/sayHello", &accept, "").status, 406);
}

/// The published test's own command. `ab -k` speaks HTTP/1.0: a server that forgets to say
/// `keep-alive` or a length gets a new connection for every request.
#[test]
fn martini_serves_20_000_requests_of_ab_on_kept_connections() {
    let server = start("martini", &[]);
    let output = Command::new("ab")
        .args(["-q", "-k", "-n", "20000", "-c", "150"])
        .arg(server.url("/api/examples-services/sayHello"))
        .output()
        .expect("ab runs");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |name: &str| -> Option<u64> {
        let line = report.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    assert_eq!(number("Complete requests:"), Some(20_000), "{report}");
    assert_eq!(number("Keep-Alive requests:"), Some(20_000), "{report}");
    assert_eq!(number("Failed requests:"), Some(0), "{report}");
    assert_eq!(number("Document Length:"), Some(52), "{report}");
    assert!(!report.contains("Non-2xx"), "{report}");
}

#[test]
fn linx_has_its_four_endpoints() {
    let server = start("linx", &[]);
    let mut client = server.connect();
    let dummy = client.get("/linx/DummyGET");
    assert_eq!((dummy.status, dummy.body.len()), (200, 0));
    let dummy = client.post("/linx/DummyPOST", "");
    assert_eq!((dummy.status, dummy.body.len()), (200, 0));
    let text = client.get("/linx/GetWithResponse");
    assert_eq!((text.status, text.text().as_str()), (200, "Hello from Linx"));
    let made = client.post("/linx/PostWithResponseAndContent", r#"{"a": [1, 2.50]}"#);
    assert_eq!(made.status, 200);
    assert_eq!(made.json(), json!({"message": "Received", "content": {"a": [1, 2.5]}}));
    assert_eq!(client.post("/linx/DummyGET", "").status, 405);
    let order = r#"{"id": 7, "lines": [{"quantity": 2, "price": 30}]}"#;
    let expected = json!({"message": "Received", "order": 7, "total": 60, "free": true});
    assert_eq!(client.post("/linx/Order", order).json(), expected);
    assert_eq!(client.post("/linx/Order", "{}").status, 422);
}

#[test]
fn quickstart_hosts_fronts_and_refuses() {
    let echo = harness::echo(&[]);
    let server = start("quickstart", &[&target("echo", &echo)]);
    let mut client = server.connect();
    assert_eq!(client.get("/hello").json()["message"], "Hello World");
    let authorization = token(&server, &["--iss", "quickstart", "--aud", "orders", "--sub", "you"]);
    let headers = [("content-type", "application/json"), ("authorization", &*authorization)];
    let order = r#"{"id": "A-17", "ship": {"city": "Utrecht"}, "total": 42.50, "note": "no"}"#;
    let response = client.request("POST", "/orders/v1", &headers, order);
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.text(), r#"{"order":"A-17","city":"Utrecht","total":42.50}"#);
    assert!(response.header("ratelimit").is_some(), "{response:?}");
    refused(&client.post("/orders/v1", order));
    let stranger = token(&server, &["--iss", "quickstart", "--aud", "other", "--sub", "you"]);
    let headers = [("content-type", "application/json"), ("authorization", &*stranger)];
    refused(&client.request("POST", "/orders/v1", &headers, order));
    for (query, hits) in [("key.order:A-17", 1), ("body:utrecht", 1), ("status:>=400", 2)] {
        eventually(query, || found(&server, query) == hits);
    }
}

/// How many transactions `weir search` finds.
fn found(server: &Server, query: &str) -> usize {
    let admin = format!("http://{}", server.admin.expect("it has an admin listener"));
    let token = server.dir().join("data/admin.token");
    let arguments =
        ["search", query, "--json", "--admin", &admin, "--token-file", &token.to_string_lossy()];
    let output = weir(server.dir(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().count()
}

fn refused(response: &Response) {
    assert_eq!(response.status, 401);
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert!(response.header("www-authenticate").is_some());
}

/// Both APIs through curl, over TLS, with the payload shape of the published test.
#[test]
fn mware_passes_through_and_mediates_behind_jwt_and_tls() {
    let echo = harness::echo(&[]);
    let server = start("mware", &[&target("netty", &echo)]);
    let authorization = token(&server, &["--iss", "mware"]);
    let payload = r#"{"size":"50B","payload":["0123456789","ABCDEFGH"]}"#;
    let ask = |path: &str, authorization: &str| {
        let output = Command::new("curl")
            .args(["-sk", "-w", "%{http_code} %{http_version}\n", "-d", payload])
            .args(["-H", "content-type: application/json"])
            .args(["-H", &format!("authorization: {authorization}")])
            .arg(format!("https://{}{path}", server.listen[0]))
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(ask("/echo/1.0.0", &authorization), format!("{payload}200 2\n"));
    let mediated = r#"{"payload":["0123456789","ABCDEFGH"],"size":"50B"}"#;
    assert_eq!(ask("/mediation/1.0.0", &authorization), format!("{mediated}200 2\n"));
    for path in ["/echo/1.0.0", "/mediation/1.0.0"] {
        let refused = ask(path, "Bearer none");
        assert!(refused.ends_with("401 2\n"), "{path}: {refused}");
    }
}

/// A setting by which the agents of a pool run as whoever runs the test, who may be root.
fn as_this_user(pool: &str) -> String {
    format!("pools.{pool}.user={}", rustix::process::geteuid().as_raw())
}

#[test]
fn php_and_python_respond_from_pools() {
    let server = start("php", &[&as_this_user("php")]);
    let response = server.connect().request("POST", "/index.php/a/b?x=1", &[], "hello");
    let expected = json!({"agent": response.json()["agent"], "method": "POST", "script": "/index.php",
        "path": "/a/b", "query": {"x": "1"}, "length": 5});
    assert_eq!(response.json(), expected);
    assert_eq!(server.connect().get("/").json()["script"], "/index.php");

    let server = start("python", &[&as_this_user("orders")]);
    let order = json!({"id": "A-17", "items": [1, 2, 3]});
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.post("/orders/v1", &order.to_string()).json();
        assert_eq!((&response["order"], &response["path"]), (&order, &json!("/orders/v1")));
    }
}

/// The published file, plain and compressed, and by the published test's own means.
#[test]
fn openedge_serves_its_static_file_of_4481_bytes() {
    let users = [as_this_user("grid"), as_this_user("grid-cgi")];
    let server = start("openedge", &[&users[0], &users[1]]);
    let mut client = server.connect();
    let plain = client.get("/static/grid.json");
    assert_eq!((plain.status, plain.body.len()), (200, 4481));
    let records = plain.json()["records"].as_array().expect("records").clone();
    let fields: Vec<usize> =
        records.iter().map(|record| record.as_object().map_or(0, serde_json::Map::len)).collect();
    assert_eq!(fields, [10; 10]);
    assert_eq!(plain.header("content-type"), Some("application/json"));
    let packed = client.request("GET", "/static/grid.json", &[("accept-encoding", "gzip")], "");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < 1000, "{}", packed.body.len());
    let unpacked = harness::run(Command::new("gzip").arg("-d"), &packed.body);
    assert!(unpacked == plain.body);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/openedge/grid");
    assert!(harness::run(&mut Command::new(script), b"") == plain.body);
}

/// Paths of a configuration mean the same wherever weir is started, and by whatever path.
#[test]
fn examples_run_from_another_folder_and_through_a_symbolic_link() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (from, path) in [
        ("other/folder", "../../example"),
        ("other/folder", "../.././example/weir.yaml"),
        ("other", "../link"),
        ("other", "../elsewhere/../link/weir.yaml"),
        ("link", "weir.yaml"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_owned();
        for folder in ["other/folder", "elsewhere"] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(examples.join("openedge")).arg(place.join("example"));
        harness::run(&mut copy, b"");
        std::os::unix::fs::symlink("example", place.join("link")).unwrap();
        let users = [as_this_user("grid"), as_this_user("grid-cgi")];
        let set = ["listen.0.addr=127.0.0.1:0", &users[0], &users[1], "pools.grid.agents.min=1"];
        let set: Vec<&str> = set.iter().flat_map(|one| ["--set", one]).collect();
        let few = ["--set", "pools.grid.agents.initial=1"];
        let server = Weir::elsewhere(dir, &place.join(from), path).args(&set).args(&few).start();
        let mut client = server.connect();
        for way in ["pool", "cgi", "script"] {
            let path = format!("/{way}/benchmark?numFields=2&numRecords=2&msdelay=0");
            let response = client.get(&path);
            assert_eq!(response.status, 200, "{way} from {from} by {path}: {}", response.text());
            assert!(response.json()["records"].is_array(), "{}", response.text());
        }
        assert_eq!(client.get("/static/grid.json").body.len(), 4481, "from {from} by {path}");
        assert!(place.join("example/data").is_dir(), "from {from} by {path}");
    }
}

/// The published sizes of about 1, 4, 18 and 70 KB, alike by a pool, by CGI and by a script, and ten
/// agents at work at once.
#[test]
fn openedge_makes_grids_in_three_ways() {
    let users = [as_this_user("grid"), as_this_user("grid-cgi")];
    let server = start("openedge", &[&users[0], &users[1]]);
    let mut client = server.connect();
    for (side, kilobytes) in [(5, 1.0), (10, 4.4), (20, 18.0), (40, 71.0)] {
        let path = |way| format!("/{way}/benchmark?numFields={side}&numRecords={side}&msdelay=5");
        let [pool, cgi, script] = ["pool", "cgi", "script"].map(|way| client.get(&path(way)));
        assert_eq!((pool.status, pool.header("content-type")), (200, Some("application/json")));
        let size = pool.body.len() as f64 / 1000.0;
        assert!((size / kilobytes - 1.0).abs() < 0.15, "{side} by {side}: {size} KB");
        assert_eq!((pool.text(), pool.text()), (cgi.text(), script.text()));
        let packed = client.request("GET", &path("pool"), &[("accept-encoding", "gzip")], "");
        assert!(packed.body.len() * 3 < pool.body.len(), "{}", packed.body.len());
    }
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(
            "GET /pool/benchmark?numFields=1&numRecords=1&msdelay=3000 HTTP/1.1\r\nHost: a\r\n\r\n",
        );
    }
    eventually("ten agents are busy and two requests wait", || {
        server.metric("weir_pool_agents", &["weir_pool=\"grid\"", "state=\"busy\""]) == 10.0
            && server.metric("weir_pool_queue_depth", &["weir_pool=\"grid\""]) == 2.0
    });
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

/// Configurations of other servers and their translations: `examples/migration/run` sends the same requests to
/// weir and, where it is installed, to the original.
#[test]
fn migrated_configurations_respond_as_the_originals() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/migration/run");
    let weir = env!("CARGO_BIN_EXE_weir");
    let output = Command::new("python3").arg(script).arg(weir).output().expect("python3 runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
}
