//! Rates and quotas, counted from outside.

use crate::harness::{Client, KEYS, Response, SECRET, Server, Weir, unix_now};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A route that replies, with these settings of its API and of the rest.
fn config(api: &str, more: &str) -> String {
    format!(
        "workers: 2\n{more}\napis:\n  api:\n    base: /\n    {api}\n    \
         routes: [{{get: /, reply: {{text: hello}}}}]\n"
    )
}

const PLAIN: &str = "listen: [{addr: \"127.0.0.1:0\"}]";

fn start(api: &str, more: &str) -> Server {
    Weir::new(&config(api, more)).file("secret", SECRET).start()
}

/// A GET with these headers, on a connection of its own.
fn get(server: &Server, headers: &[(&str, &str)]) -> Response {
    server.connect().request("GET", "/", headers, "")
}

/// The status of so many requests in a row.
fn statuses(server: &Server, headers: &[(&str, &str)], count: usize) -> Vec<u16> {
    (0..count).map(|_| get(server, headers).status).collect()
}

fn bearer(sub: &str) -> String {
    let claims = json!({"sub": sub, "exp": unix_now() + 600});
    format!("Bearer {}", KEYS.token("HS256", &claims))
}

/// Sends without a pause until the time is over; gives when each request that got through was
/// sent and answered.
fn hammer(addr: SocketAddr, until: Instant) -> Vec<(Instant, Instant)> {
    let mut admitted = Vec::new();
    while Instant::now() < until {
        // New connections now and then, so that every worker gets some.
        let mut client = Client::connect(addr);
        for _ in 0..10 {
            let sent = Instant::now();
            let status = client.get("/").status;
            match status {
                200 => admitted.push((sent, Instant::now())),
                429 => {}
                other => panic!("{other}"),
            }
        }
    }
    admitted
}

/// Sends requests with these keys; gives how many were admitted.
fn admitted(client: &mut Client, path: &str, keys: std::ops::Range<usize>) -> usize {
    let mut admitted = 0;
    let keys: Vec<usize> = keys.collect();
    for some in keys.chunks(50) {
        let requests = some
            .iter()
            .map(|key| format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n"));
        client.send(requests.collect::<String>());
        let responses = some.iter().map(|_| client.response().status);
        admitted += responses.filter(|status| *status == 200).count();
    }
    admitted
}

#[test]
fn keys_invented_for_one_limit_take_no_room_from_others() {
    let keyed = |path: &str| {
        format!(
            "      - {{get: /{path}, reply: {{text: hello}}, \
             limit: {{rate: 1/h, burst: 1, key: {{cel: \"request.headers['x-key']\"}}}}}}\n"
        )
    };
    let routes: String = (0..70).map(|i| keyed(&format!("r{i}"))).collect();
    let server = Weir::new(&format!(
        "workers: 1\n{PLAIN}\napis:\n  api:\n    base: /\n    routes:\n{routes}"
    ))
    .start();
    let mut client = server.connect();
    // More than the part of one limit, which is 4,096 where there are many.
    let first = admitted(&mut client, "/r0", 0..6000);
    assert!((4000..=4200).contains(&first), "{first}");
    // Another limit's keys have buckets of their own.
    assert_eq!(admitted(&mut client, "/r1", 0..1000), 1000);
    assert_eq!(admitted(&mut client, "/r1", 0..1000), 0);
}

/// weir decides on a request between its sending and its answer. So of the requests that were sent
/// after one moment and answered before another, no more than burst + rate·t can have got through,
/// however slow this machine is.
#[test]
fn two_threads_on_one_key_never_get_more_than_burst_and_rate() {
    const RATE: f64 = 50.0;
    const BURST: usize = 20;
    let server = start("limit: {rate: 50/s, burst: 20, key: address}", PLAIN);
    let (addr, until) = (server.listen[0], Instant::now() + Duration::from_millis(1500));
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| all.lock().unwrap().extend(hammer(addr, until)));
        }
    });
    let all = all.into_inner().unwrap();
    assert!(all.len() > BURST, "only {} got through: the rate flows back, too", all.len());
    for (start, _) in &all {
        let mut answered: Vec<Instant> =
            all.iter().filter(|(sent, _)| sent >= start).map(|(_, answered)| *answered).collect();
        answered.sort_unstable();
        for (index, end) in answered.iter().enumerate() {
            let t = end.duration_since(*start).as_secs_f64();
            let (count, bound) = (index + 1, BURST as f64 + RATE * t);
            assert!(count as f64 <= bound, "{count} in {t} s, where {bound} may pass");
        }
    }
}

#[test]
fn clients_are_told_how_they_stand() {
    let server = start("limit: {rate: 5/h, key: address}", PLAIN);
    for left in (0..5).rev() {
        let response = get(&server, &[]);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("ratelimit-policy"), Some("\"api\";q=5;w=3600"));
        let standing = response.header("ratelimit").unwrap();
        assert!(standing.starts_with(&format!("\"api\";r={left};t=")), "{standing}");
        assert_eq!(response.header("retry-after"), None);
    }
    let refused = get(&server, &[]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["type"], "urn:weir:problem:rate-limited");
    assert_eq!(refused.json()["retry"], "safe");
    assert!(refused.header("ratelimit").unwrap().starts_with("\"api\";r=0;t="), "{refused:?}");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=720).contains(&wait), "one flows back every 12 minutes, not in {wait} s");
    assert_eq!(server.metric("weir_rate_limited_total", &[]), 1.0);
}

#[test]
fn who_waits_as_told_gets_through() {
    let server = start("limit: {rate: 1/s, key: address}", PLAIN);
    let mut refused = None;
    for _ in 0..50 {
        let response = get(&server, &[]);
        if response.status == 429 {
            refused = Some(response);
            break;
        }
    }
    let wait = refused.expect("a refusal").header("retry-after").unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_secs(wait));
    assert_eq!(get(&server, &[]).status, 200);
}

#[test]
fn addresses_behind_a_trusted_proxy_count_by_themselves() {
    let listen = "listen: [{addr: \"127.0.0.1:0\", trust: [127.0.0.1]}]";
    let server = start("limit: {rate: 2/h, key: address}", listen);
    let from = |address: &str| statuses(&server, &[("x-forwarded-for", address)], 3);
    assert_eq!(from("192.0.2.1"), [200, 200, 429]);
    assert_eq!(from("192.0.2.2"), [200, 200, 429]);
    assert_eq!(from("6.6.6.6, 192.0.2.1"), [429; 3], "the client writes the left end itself");
    assert_eq!(from("2001:db8::1"), [200, 200, 429]);
    assert_eq!(from("2001:db8::2"), [429; 3], "a customer has a whole /64");
    assert_eq!(from("2001:db8:0:1::1"), [200, 200, 429]);
}

#[test]
fn addresses_nobody_vouches_for_do_not_help() {
    let server = start("limit: {rate: 2/h, key: address}", PLAIN);
    let mut seen = Vec::new();
    for last in 1..=4 {
        let address = format!("192.0.2.{last}");
        let forwarded = format!("for={address}");
        let headers = [("x-forwarded-for", address.as_str()), ("forwarded", forwarded.as_str())];
        seen.push(get(&server, &headers).status);
    }
    assert_eq!(seen, [200, 200, 429, 429]);
}

#[test]
fn addresses_of_the_proxy_protocol_count_by_themselves() {
    let listen = "listen: [{addr: \"127.0.0.1:0\", proxy_protocol: [127.0.0.1]}]";
    let server = start("limit: {rate: 2/h, key: address}", listen);
    let from = |source: &str| {
        let mut client = server.connect();
        client.send(format!("PROXY TCP4 {source} 192.0.2.9 4711 80\r\n"));
        [client.get("/").status, client.get("/").status, client.get("/").status]
    };
    assert_eq!(from("192.0.2.1"), [200, 200, 429]);
    assert_eq!(from("192.0.2.2"), [200, 200, 429]);
    assert_eq!(from("192.0.2.1"), [429; 3]);
}

#[test]
fn keys_may_be_expressions_and_fall_back_to_the_address() {
    let limit = "limit: {rate: 2/h, key: {cel: \"request.headers['x-tenant']\"}}";
    let server = start(limit, PLAIN);
    let of = |tenant: &str| statuses(&server, &[("x-tenant", tenant)], 3);
    assert_eq!(of("a"), [200, 200, 429]);
    assert_eq!(of("b"), [200, 200, 429]);
    assert_eq!(of("a"), [429; 3]);
    assert_eq!(statuses(&server, &[], 3), [200, 200, 429], "no tenant: by address");
}

/// Two consumers with one plan, recognised by their tokens.
const PLANS: &str = "listen: [{addr: \"127.0.0.1:0\"}]\n\
    auth: {idp: {jwt: {algorithms: HS256, key: \"file:secret\"}}}\n\
    plans: {gold: {rate: 100/h, quota: {calls: 3, per: year}}}\n\
    consumers:\n  acme: {plan: gold, match: {auth: idp, when: 'claims.sub == \"acme\"'}}\n  \
    beta: {plan: gold, match: {auth: idp, when: 'claims.sub == \"beta\"'}}\n";

#[test]
fn a_quota_that_is_used_up_is_told_from_a_rate() {
    let server = start("auth: idp", PLANS);
    let (acme, beta) = (bearer("acme"), bearer("beta"));
    for left in (0..3).rev() {
        let response = get(&server, &[("authorization", &acme)]);
        assert_eq!(response.status, 200);
        let standing = response.header("ratelimit").unwrap();
        assert!(standing.starts_with(&format!("\"gold-quota\";r={left};t=")), "{standing}");
    }
    let refused = get(&server, &[("authorization", &acme)]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["type"], "urn:weir:problem:quota-exhausted");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=366 * 86_400).contains(&wait), "until the next year, not {wait} s");
    assert_eq!(statuses(&server, &[("authorization", &beta)], 4), [200, 200, 200, 429]);
    assert_eq!(server.metric("weir_over_quota_total", &[]), 2.0);
    let stranger = bearer("stranger");
    assert_eq!(statuses(&server, &[("authorization", &stranger)], 4), [200; 4], "no plan");
}

#[test]
fn what_was_used_stays_used_over_a_reload() {
    let mut server = start("limit: {rate: 5/h, key: address}", PLAIN);
    assert_eq!(statuses(&server, &[], 3), [200; 3]);
    server.reload(&(config("limit: {rate: 5/h, key: address}", PLAIN) + "# changed\n"));
    assert_eq!(statuses(&server, &[], 3), [200, 200, 429]);
    // One more fits into the bucket now.
    server.reload(&config("limit: {rate: 5/h, burst: 6, key: address}", PLAIN));
    assert_eq!(statuses(&server, &[], 2), [200, 429]);
}

#[test]
fn a_quota_stays_used_over_a_reload() {
    let mut server = start("auth: idp", PLANS);
    let acme = bearer("acme");
    assert_eq!(statuses(&server, &[("authorization", &acme)], 2), [200; 2]);
    server.reload(&(config("auth: idp", PLANS) + "# changed\n"));
    assert_eq!(statuses(&server, &[("authorization", &acme)], 2), [200, 429]);
}
