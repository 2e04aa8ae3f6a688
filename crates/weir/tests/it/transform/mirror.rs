//! Copies of requests for other upstreams.

use crate::harness::{self, Peer, Server, Upstream, Weir, eventually, nobody};
use serde_json::Value;
use std::sync::mpsc::{Receiver, channel};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmain";
const COPY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ncopy";

/// weir whose requests go to the first one, and copies to the second one.
fn before(main: &Upstream, mirror: impl ToString, settings: &str, of_mirror: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\nupstreams:\n  \
         shop: {{targets: [\"http://{}\"], auth: {{bearer: of-shop}}}}\n  \
         next: {{targets: [\"http://{}\"]{of_mirror}}}\n\
         apis:\n  api:\n    base: /\n    routes:\n      - path: \"/*\"\n        \
         request: {{headers: {{set: {{x-set: by-weir}}, remove: [x-gone]}}}}\n        \
         proxy: {{upstream: shop, mirror: {{upstream: next{settings}}}}}\n",
        main.addr,
        mirror.to_string()
    ))
    .start()
}

fn came_of(weir: &Server, outcome: &str) -> f64 {
    weir.metric("weir_mirror_requests_total", &[&format!("weir_outcome=\"{outcome}\"")])
}

/// One that answers everything, and hands over what has come, heads with bodies.
fn keeping(response: &'static str) -> (Upstream, Receiver<(String, Vec<u8>)>) {
    let (sender, received) = channel();
    let serve = move |_, peer: &mut Peer| {
        while let Some(body) = peer.request() {
            let _ = sender.send((peer.last_head(), body));
            peer.send(response);
        }
    };
    (Upstream::start(serve), received)
}

/// The lines of a head that tell requests apart, but for those that are to differ.
fn same(head: &str) -> Vec<String> {
    let own = ["host:", "authorization:", "weir-mirrored:"];
    let differs = |line: &&str| own.iter().any(|name| line.to_ascii_lowercase().starts_with(name));
    let mut lines: Vec<_> = head.lines().filter(|l| !differs(l)).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What is listed for one upstream is not for another one.
#[test]
fn a_copy_has_no_underscores_that_its_own_upstream_does_not_get() {
    let ((main, asked), (mirror, copies)) = (keeping(OK), keeping(COPY));
    let weir = before(&main, mirror.addr, "", "");
    let config = std::fs::read_to_string(weir.dir().join("weir.yaml")).unwrap();
    let listed = "of-shop}, underscores_in_headers: x_one}";
    let weir = Weir::new(&config.replace("of-shop}}", listed)).start();
    let response = weir.connect().request("GET", "/", &[("X_One", "1"), ("X_Two", "2")], "");
    assert_eq!(response.text(), "main");
    let (head, _) = asked.recv().unwrap();
    let (copy, _) = copies.recv().unwrap();
    let has = |text: &str, name: &str| text.to_ascii_lowercase().contains(name);
    assert!(has(&head, "x_one") && !has(&head, "x_two"), "{head}");
    assert!(!has(&copy, "x_one") && !has(&copy, "x_two"), "{copy}");
}

#[test]
fn a_copy_is_the_same_but_for_its_mark_and_its_credential() {
    for (of_mirror, credential) in [
        ("", "authorization: Bearer of-client"),
        (", auth: {bearer: of-next}", "authorization: Bearer of-next"),
    ] {
        let ((main, asked), (mirror, copies)) = (keeping(OK), keeping(COPY));
        let weir = before(&main, mirror.addr, "", of_mirror);
        let mut client = weir.connect();
        let fields = "Host: a\r\nAuthorization: Bearer of-client\r\nX-Gone: x\r\nX_Gone: x\r\nWeir-Mirrored: 1\r\nweir_mirrored: 1";
        let long = "x".repeat(60_000);
        for request in [
            format!("GET /a?b=c HTTP/1.1\r\n{fields}\r\n\r\n"),
            format!("POST /empty HTTP/1.1\r\n{fields}\r\nContent-Length: 0\r\n\r\n"),
            format!("POST /long HTTP/1.1\r\n{fields}\r\nContent-Length: 60000\r\n\r\n{long}"),
            format!("PUT /chunked HTTP/1.1\r\n{fields}\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ] {
            let chunked = request.contains("chunked");
            client.send(request);
            if chunked {
                client.send("3\r\nabc\r\n");
                client.send("2\r\nde\r\n0\r\n\r\n");
            }
            assert_eq!(client.response().text(), "main");
            let (head, body) = asked.recv().unwrap();
            let (copy, of_copy) = copies.recv().unwrap();
            let told = copy.to_ascii_lowercase();
            assert!(of_copy == if chunked { b"abcde".to_vec() } else { body }, "{head}{copy}");
            assert!(told.contains("weir-mirrored: 1\r\n"), "{copy}");
            assert!(told.contains(&credential.to_ascii_lowercase()), "{copy}");
            assert!(told.contains(&format!("host: {}\r\n", mirror.addr)), "{copy}");
            assert!(!head.to_ascii_lowercase().contains("weir-mirrored"), "{head}");
            assert!(head.contains("Bearer of-shop") && !copy.contains("of-shop"), "{head}{copy}");
            assert!(head.contains("x-set: by-weir") && !head.contains("x-gone"), "{head}");
            if chunked {
                // A copy is whole when it is sent.
                assert!(told.contains("content-length: 5\r\n"), "{copy}");
            } else {
                assert_eq!(same(&head), same(&copy));
            }
        }
        eventually("copies are answered", || came_of(&weir, "sent") == 4.0);
        let next = ["weir_upstream=\"next\"", "http_response_status_code=\"503\""];
        assert_eq!(weir.metric("http_client_request_duration_seconds_count", &next), 4.0);
    }
}

#[test]
fn what_a_mirror_does_is_nothing_to_the_client() {
    let faults: [fn(&mut Peer); 3] = [
        |peer| peer.reset(),
        |peer| peer.hang(),
        |peer| {
            peer.send("HTTP/1.1 2");
        },
    ];
    for how in faults {
        let main = Upstream::responding(OK);
        let mirror = Upstream::start(move |_, peer| {
            if peer.request().is_some() {
                how(peer);
            }
        });
        let weir = before(&main, mirror.addr, ", timeout: 300ms", "");
        let mut client = weir.connect();
        for _ in 0..5 {
            assert_eq!(client.post("/x", "{}").text(), "main");
        }
        eventually("copies have failed", || came_of(&weir, "failed") == 5.0);
        assert_eq!(came_of(&weir, "sent"), 0.0);
    }
    let main = Upstream::responding(OK);
    let weir = before(&main, nobody(), "", "");
    let mut client = weir.connect();
    (0..5).for_each(|_| assert_eq!(client.get("/x").text(), "main"));
    eventually("copies have failed", || came_of(&weir, "failed") == 5.0);
    // Its health is its own.
    let health = |name: &str| weir.metric("weir_upstream_up", &[name]);
    assert_eq!((health("weir_upstream=\"shop\""), health("weir_upstream=\"next\"")), (1.0, 0.0));
}

#[test]
fn copies_have_so_many_places_and_no_more() {
    let (main, mirror) = (Upstream::responding(OK), Upstream::by_hand());
    let weir = before(&main, mirror.addr, ", in_flight: 2, timeout: 60s", "");
    let mut client = weir.connect();
    (0..6).for_each(|_| assert_eq!(client.get("/x").text(), "main"));
    assert_eq!(came_of(&weir, "busy"), 4.0);
    let mut peers = [mirror.accept(), mirror.accept()];
    for peer in &mut peers {
        assert!(peer.head().is_some());
        peer.send(COPY);
    }
    eventually("they are answered", || came_of(&weir, "sent") == 2.0);
    assert_eq!(client.get("/x").text(), "main");
    assert_eq!(came_of(&weir, "busy"), 4.0, "there is a place again");
}

#[test]
fn long_bodies_and_those_that_break_off_are_not_copied() {
    let ((main, _asked), (mirror, copies)) = (keeping(OK), keeping(COPY));
    let mut weir = before(&main, mirror.addr, ", body: 10B", "");
    let mut client = weir.connect();
    assert_eq!(client.post("/x", "12345678901").text(), "main");
    assert_eq!(came_of(&weir, "too-large"), 1.0);
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n");
    client.send("6\r\n123456\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "main");
    assert_eq!(came_of(&weir, "too-large"), 2.0);
    let mut leaving = weir.connect();
    leaving.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    eventually("it has begun", || weir.metric("http_server_active_requests", &[]) == 1.0);
    leaving.reset();
    eventually("it is over", || came_of(&weir, "incomplete") == 1.0);
    assert_eq!(client.post("/x", "1234567890").text(), "main");
    let (_, body) = copies.recv().unwrap();
    assert_eq!(body, b"1234567890");
    eventually("it is answered", || came_of(&weir, "sent") == 1.0);
    assert_eq!(mirror.heads().len(), 1);
    weir.kill();
    // The first was known to be too long; of the others a copy had begun.
    let noted = |one: &weir_journal::Transaction| {
        one.properties.iter().any(|(name, value)| name == "mirrored_to" && value == "next")
    };
    let noted: Vec<_> = harness::transactions(&weir.data()).iter().map(noted).collect();
    assert_eq!(noted, [false, true, true, true]);
}

#[test]
fn a_share_is_drawn_by_lot_of_those_that_are_meant() {
    let (main, mirror) = (Upstream::responding(OK), Upstream::responding(COPY));
    let settings = ", share: 20%, in_flight: 10000, when: \"request.headers['x-gone'] == '1'\"";
    let weir = before(&main, mirror.addr, settings, "");
    let mut client = weir.connect();
    for meant in ["0", "1"] {
        for _ in 0..500 {
            let response = client.request("GET", "/x", &[("x-gone", meant)], "");
            assert_eq!(response.text(), "main");
        }
        if meant == "0" {
            assert_eq!(mirror.heads().len(), 0);
        }
    }
    let all = || came_of(&weir, "sent") + came_of(&weir, "failed");
    eventually("copies are over", || all() == mirror.heads().len() as f64 && all() > 0.0);
    assert!((50.0..150.0).contains(&all()), "{} of 500", all());
    let explained = |value: &str| {
        let header = format!("x-gone: {value}");
        let arguments = ["explain", "GET", "/a", "-H", &header, "--json", "weir.yaml"];
        let said = harness::weir(weir.dir(), &arguments);
        let told: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        told.to_string().contains("20 % mirrored to next")
    };
    assert!(explained("1") && !explained("0"));
}
