use super::*;
use proptest::prelude::*;

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.push(name, value.as_bytes());
    }
    headers
}

fn trust() -> Vec<IpNet> {
    ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().expect("a net")).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// All headers that trusted peers may set.
fn all() -> Vec<String> {
    ["forwarded", "x-forwarded-*", "weir-*"].map(str::to_owned).to_vec()
}

fn client(peer: &str, fields: &[(&str, &str)]) -> Client {
    Client::identify(ip(peer), false, (&trust(), &all()), &mut headers(fields))
}

#[test]
fn of_a_trusted_peer_only_what_is_listed_is_believed_and_kept() {
    let said = [
        ("X-Forwarded-For", "1.1.1.1"),
        ("X-Forwarded-Host", "evil"),
        ("x-forwarded-port", "81"),
        ("weir-mirrored", "1"),
    ];
    for (listed, host, left) in [
        (&["x-forwarded-for"][..], None, &["X-Forwarded-For"][..]),
        (
            &["x-forwarded-for", "x-forwarded-host"],
            Some("evil"),
            &["X-Forwarded-For", "X-Forwarded-Host"],
        ),
        (&["x-forwarded-for", "weir-*"], None, &["X-Forwarded-For", "weir-mirrored"]),
    ] {
        let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        let mut headers = headers(&said);
        let seen = Client::identify(ip("10.0.0.1"), false, (&trust(), &listed), &mut headers);
        assert_eq!(seen.address, ip("1.1.1.1"), "{listed:?}");
        assert_eq!(seen.host.as_deref(), host, "{listed:?}");
        let names: Vec<_> = headers.iter().map(|(_, name, _)| name).collect();
        assert_eq!(names, left, "{listed:?}");
    }
    let listed = ["forwarded".to_owned()];
    let mut headers = headers(&[("forwarded", "for=1.1.1.1;host=evil;proto=https")]);
    let seen = Client::identify(ip("10.0.0.1"), false, (&trust(), &listed), &mut headers);
    assert_eq!((seen.address, seen.https, seen.host), (ip("1.1.1.1"), true, None));
}

#[test]
fn an_untrusted_peer_is_the_client_whatever_it_says() {
    let seen = client(
        "192.0.2.1",
        &[
            ("x-forwarded-for", "1.1.1.1"),
            ("forwarded", "for=1.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
        ],
    );
    assert_eq!(seen, Client { address: ip("192.0.2.1"), trusted: false, https: false, host: None });
}

fn listener(trust: Vec<IpNet>, believed: &[&str]) -> Listener {
    Listener {
        addr: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        clients: None,
        trust,
        trust_headers: believed.iter().map(|name| (*name).to_owned()).collect(),
        proxy_protocol: None,
    }
}

#[test]
fn a_recorded_client_is_the_one_that_was_found_then() {
    let believed = ["forwarded", "x-forwarded-*"];
    let open = [listener(Vec::new(), &believed), listener(trust(), &believed)];
    let usual = || listener(trust(), &["forwarded", "x-forwarded-for", "x-forwarded-proto"]);
    for fields in [
        // The values of the client are left of, or before, those of a trusted hop.
        &[("x-forwarded-host", "evil, a.example"), ("x-forwarded-proto", "http, https")][..],
        &[("x-forwarded-host", "evil"), ("x-forwarded-host", "A.example")],
        &[("forwarded", "for=1.1.1.1;host=evil, for=192.0.2.1;host=a.example;proto=https")],
    ] {
        let seen = |https, listeners: &[Listener]| {
            Client::recorded(ip("192.0.2.1"), https, listeners, &headers(fields))
        };
        let expected = |https, host: Option<&str>| Client {
            address: ip("192.0.2.1"),
            trusted: false,
            https,
            host: host.map(str::to_owned),
        };
        for https in [false, true] {
            assert_eq!(seen(https, &open), expected(https, Some("a.example")), "{fields:?}");
            assert_eq!(seen(https, &[usual()]), expected(https, None), "{fields:?}");
            assert_eq!(seen(https, &open[..1]), expected(https, None), "{fields:?}");
        }
        // The request may have arrived at a listener that does not trust the host of `Forwarded`.
        let mixed = [usual(), listener(trust(), &believed)];
        let is_line = fields[0].0 != "forwarded";
        assert_eq!(seen(true, &mixed).host.is_some(), is_line, "{fields:?}");
    }
    let wrong = headers(&[("x-forwarded-host", "a b")]);
    assert_eq!(Client::recorded(ip("192.0.2.1"), false, &open, &wrong).host, None);
}

#[test]
fn the_client_is_the_rightmost_untrusted_entry() {
    for (value, address) in [
        ("1.1.1.1", "1.1.1.1"),
        ("6.6.6.6, 1.1.1.1", "1.1.1.1"),
        ("6.6.6.6, 1.1.1.1, 10.0.0.9,10.1.1.1", "1.1.1.1"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("1.1.1.1:1234, 10.0.0.2:80", "1.1.1.1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1, fd00::1", "2001:db8::1"),
        ("::ffff:1.1.1.1, ::ffff:10.0.0.1", "1.1.1.1"),
    ] {
        assert_eq!(
            client("10.0.0.1", &[("X-Forwarded-For", value)]).address,
            ip(address),
            "{value}"
        );
    }
    let lines = [("x-forwarded-for", "6.6.6.6, 1.1.1.1"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(client("10.0.0.1", &lines).address, ip("1.1.1.1"));
    assert_eq!(client("::ffff:10.0.0.1", &lines).address, ip("1.1.1.1"));
}

#[test]
fn an_entry_that_is_no_address_ends_the_walk_at_who_reported_it() {
    for value in ["1.1.1.1, unknown", "1.1.1.1, _x", "1.1.1.1,", "1.1.1.1, 10.0.0.300", "\"", ""] {
        assert_eq!(
            client("10.0.0.1", &[("x-forwarded-for", value)]).address,
            ip("10.0.0.1"),
            "{value}"
        );
    }
    let hidden = client("10.0.0.1", &[("x-forwarded-for", "1.1.1.1, junk, 10.0.0.2")]);
    assert_eq!(hidden.address, ip("10.0.0.2"));
    let hidden = client("10.0.0.1", &[("forwarded", "for=1.1.1.1, for=_hidden, for=10.0.0.2")]);
    assert_eq!(hidden.address, ip("10.0.0.2"));
}

#[test]
fn forwarded_is_read_with_its_quoting() {
    let seen = client(
        "10.0.0.1",
        &[(
            "Forwarded",
            "for=6.6.6.6, For=\"[2001:db8:cafe::17]:4711\";Proto=https;host=\"a.example:8443\", for=10.0.0.2;proto=http;by=\"x,y;for=9.9.9.9\"",
        )],
    );
    assert_eq!(seen.address, ip("2001:db8:cafe::17"));
    assert!(seen.https);
    assert_eq!(seen.host.as_deref(), Some("a.example:8443"));
}

#[test]
fn x_forwarded_for_comes_before_forwarded() {
    let both = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "1.1.1.1")];
    assert_eq!(client("10.0.0.1", &both).address, ip("1.1.1.1"));
}

#[test]
fn scheme_and_host_of_the_nearest_trusted_hop_are_believed_if_plausible() {
    let seen = client(
        "10.0.0.1",
        &[("x-forwarded-proto", "http, HTTPS"), ("x-forwarded-host", "x, Shop.example")],
    );
    assert!(seen.https);
    assert_eq!(seen.host.as_deref(), Some("shop.example"));
    let seen =
        client("10.0.0.1", &[("x-forwarded-proto", "gopher"), ("x-forwarded-host", "a b/<")]);
    assert!(!seen.https);
    assert_eq!(seen.host, None);
}

#[test]
fn strip_removes_what_proxies_say_and_nothing_else() {
    let mut headers = headers(&[
        ("Forwarded", "for=x"),
        ("X-Forwarded-For", "1"),
        ("x-forwarded-PORT", "1"),
        ("X-Forwarded-Proto", "1"),
        ("x-forwarded-host", "1"),
        ("Weir-Anything", "1"),
        ("x-forwarded", "stays"),
        ("weird", "stays"),
        ("via", "1.1 x"),
        ("host", "h"),
    ]);
    strip(&mut headers, &[]);
    let left: Vec<_> = headers.iter().map(|(_, name, _)| name.to_owned()).collect();
    assert_eq!(left, ["x-forwarded", "weird", "via", "host"]);
}

fn announced(peer: &str, host: &str, fields: &[(&str, &str)]) -> Headers {
    let mut headers = headers(fields);
    let client = Client::identify(ip(peer), true, (&trust(), &all()), &mut headers);
    let hop = Hop { peer: ip(peer), host: host.as_bytes(), version: "1.1" };
    announce(&mut headers, &hop, &client);
    headers
}

fn value<'h>(headers: &'h Headers, name: &'h str) -> &'h str {
    assert_eq!(headers.get_all(name).count(), 1, "{name}");
    headers.get(name).and_then(|v| std::str::from_utf8(v).ok()).unwrap_or_default()
}

#[test]
fn an_untrusted_peer_starts_new_chains() {
    let headers = announced(
        "2001:db8::1",
        "shop.example:8443",
        &[("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6"), ("via", "1.0 fred")],
    );
    assert_eq!(value(&headers, "x-forwarded-for"), "2001:db8::1");
    assert_eq!(value(&headers, "x-forwarded-proto"), "https");
    assert_eq!(value(&headers, "x-forwarded-host"), "shop.example:8443");
    assert_eq!(
        value(&headers, "forwarded"),
        "for=\"[2001:db8::1]\";host=\"shop.example:8443\";proto=https"
    );
    assert_eq!(value(&headers, "via"), "1.0 fred, 1.1 weir");
}

#[test]
fn a_trusted_peer_s_chains_go_on() {
    let headers = announced(
        "10.0.0.1",
        "inner",
        &[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "shop.example"),
        ],
    );
    assert_eq!(value(&headers, "x-forwarded-for"), "1.1.1.1, 10.0.0.2, 10.0.0.1");
    assert_eq!(value(&headers, "x-forwarded-proto"), "http");
    assert_eq!(value(&headers, "x-forwarded-host"), "shop.example");
    assert_eq!(value(&headers, "forwarded"), "for=10.0.0.1;host=shop.example;proto=http");
}

#[test]
fn a_host_cannot_break_out_of_its_quotes() {
    let headers = announced("192.0.2.1", "a\";for=1.1.1.1;x=\"", &[]);
    assert_eq!(
        value(&headers, "forwarded"),
        "for=192.0.2.1;host=\"a\\\";for=1.1.1.1;x=\\\"\";proto=https"
    );
    assert_eq!(headers.get("via"), Some(&b"1.1 weir"[..]));
    assert_eq!(announced("192.0.2.1", "", &[]).get("x-forwarded-host"), None);
}

proptest! {
    #[test]
    fn hostile_chains_never_reach_past_an_untrusted_hop(
        garbage in "[ -~]{0,60}", which in prop::sample::select(vec!["x-forwarded-for", "forwarded"])
    ) {
        let real = if which == "forwarded" { "for=192.0.2.9" } else { "192.0.2.9" };
        // Not even an unclosed quote may hide the element of the trusted hop.
        let seen = client("10.0.0.1", &[(which, &format!("{garbage}, {real}"))]);
        prop_assert_eq!(seen.address, ip("192.0.2.9"));
    }

    #[test]
    fn what_weir_announces_it_reads_back(bits: [u16; 8], v6: bool, host in "[a-z]{1,9}(:[0-9]{1,4})?") {
        let address = if v6 { IpAddr::from(bits) } else { IpAddr::from([1, 2, bits[0] as u8, bits[1] as u8]) };
        let mut told = Headers::new();
        let client = Client::identify(address, true, (&[], &[]), &mut told);
        announce(&mut told, &Hop { peer: address, host: host.as_bytes(), version: "2" }, &client);
        for without in ["forwarded", "x-forwarded-for"] {
            let mut told = told.clone();
            told.remove(without);
            let seen = Client::identify(ip("10.0.0.1"), false, (&trust(), &all()), &mut told);
            prop_assert_eq!(seen.address, address.to_canonical());
            prop_assert!(seen.https);
            prop_assert_eq!(seen.host.as_deref(), Some(&host[..]));
        }
    }
}

#[test]
fn addresses_are_written_as_everybody_writes_them() {
    for octet in 0..=255 {
        for address in [
            IpAddr::from([octet, 1, 20, 255]),
            IpAddr::from([10, octet, 0, octet]),
            IpAddr::from([0, 0, 0, octet]),
        ] {
            let mut buffer = [0; MAX_ADDRESS_BYTES];
            assert_eq!(display(address, &mut buffer), address.to_string().as_bytes());
        }
    }
}
