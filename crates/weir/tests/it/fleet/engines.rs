//! The engines that failure tests need start, lose nothing that they have confirmed, and come back.

use crate::harness::{OpenSearch, PgBouncer, Postgres, Redis, Relay, eventually};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Number of documents of an index that can be searched.
fn documents(engine: &OpenSearch, index: &str) -> u64 {
    let refreshed = engine.request("POST", &format!("/{index}/_refresh"), "");
    assert_eq!(refreshed.status, 200, "{}", refreshed.text());
    let counted = engine.request("GET", &format!("/{index}/_count"), "");
    counted.json()["count"].as_u64().expect("a number")
}

#[test]
fn opensearch_keeps_what_it_has_confirmed() {
    let Some(mut engine) = OpenSearch::start() else { return };
    let index = r#"{"settings":{"number_of_shards":1,"number_of_replicas":0}}"#;
    assert_eq!(engine.request("PUT", "/calls", index).status, 200);
    let bulk = "{\"create\":{\"_id\":\"1\"}}\n{\"status\":200}\n{\"create\":{\"_id\":\"2\"}}\n{\"status\":500}\n";
    let created = engine.request("POST", "/calls/_bulk", bulk);
    assert_eq!(created.json()["errors"], false, "{}", created.text());
    engine.kill_9();
    assert!(TcpStream::connect(engine.addr()).is_err());
    engine.restart();
    let waiting = "/_cluster/health?wait_for_status=green&timeout=60s";
    assert_eq!(engine.request("GET", waiting, "").status, 200);
    assert_eq!(documents(&engine, "calls"), 2);
    // What is sent again is no second document.
    let again = engine.request("POST", "/calls/_bulk", bulk);
    assert_eq!(again.json()["items"][0]["create"]["status"], 409, "{}", again.text());
    assert_eq!(documents(&engine, "calls"), 2);
}

#[test]
fn postgres_keeps_what_it_has_confirmed() {
    let mut engine = Postgres::start();
    engine.query(
        "CREATE TABLE call (id int PRIMARY KEY, api text); INSERT INTO call VALUES (1, 'a')",
    );
    let snapshot = engine.snapshot();
    engine.query("INSERT INTO call VALUES (2, NULL)");
    engine.kill_9();
    assert!(TcpStream::connect(engine.addr()).is_err());
    engine.restart();
    assert_eq!(engine.query("SELECT * FROM call ORDER BY id"), "1|a\n2|");
    engine.restore(&snapshot);
    assert_eq!(engine.query("SELECT * FROM call ORDER BY id"), "1|a");
}

#[test]
fn postgres_gives_weir_its_schema_and_no_more() {
    let engine = Postgres::start();
    let role = "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles \
                WHERE rolname = current_user";
    assert_eq!(engine.query(role), "f|f|f|f");
    let owners = "SELECT nspname FROM pg_namespace WHERE nspowner = current_user::regrole";
    assert_eq!(engine.query(owners), "public");
    assert_eq!(engine.query("SHOW fsync; SHOW password_encryption"), "on\nscram-sha-256");
    let version: u32 = engine.query("SHOW server_version_num").parse().unwrap();
    assert!(version >= 150_000, "{version}");
    // Another server has other data.
    let other = Postgres::start();
    engine.query("CREATE TABLE only_here ()");
    assert_eq!(other.query("SELECT to_regclass('only_here') IS NULL"), "t");
}

#[test]
fn postgres_takes_connections_with_tls_only() {
    let engine = Postgres::start_tls();
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(engine.query(encrypted), "t");
    assert!(engine.certificate().is_some_and(|one| one.cert.starts_with("-----BEGIN")));
    let rejected = Postgres::query_at(engine.addr(), encrypted).expect_err("not encrypted");
    assert!(rejected.contains("no encryption"), "{rejected}");
}

#[test]
fn postgres_commits_a_transaction_whose_response_is_lost() {
    let engine = Postgres::start();
    engine.query("CREATE TABLE call (id int)");
    let relay = Relay::new(engine.addr());
    relay.cut_after(b"COMMIT");
    let statements = "BEGIN; INSERT INTO call VALUES (1); COMMIT";
    let error = Postgres::query_at(relay.addr(), statements).expect_err("no response");
    assert!(error.contains("closed the connection"), "{error}");
    assert_eq!(relay.lost_responses(), 1);
    assert_eq!(engine.query("SELECT id FROM call"), "1");
    assert!(engine.url().ends_with(&format!("@{}/weir", engine.addr())), "{}", engine.url());
}

#[test]
fn pgbouncer_shares_a_connection_between_transactions() {
    let mut engine = Postgres::start();
    let bouncer = PgBouncer::start(engine.addr(), 1);
    // A session that stays open, between transactions.
    let mut session = Postgres::psql(bouncer.addr());
    session.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn().unwrap();
    let mut input = session.stdin.take().unwrap();
    input.write_all(b"SELECT pg_backend_pid();\n").unwrap();
    let mut first = String::new();
    BufReader::new(session.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let first = first.trim_end().to_owned();
    // Others at the same time, by turns.
    let slowly = "SELECT pg_backend_pid() FROM pg_sleep(0.2)";
    let process = || Postgres::query_at(bouncer.addr(), slowly);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(process().as_ref(), Ok(&first)));
        }
    });
    drop(input);
    assert!(session.wait().unwrap().success());
    engine.kill_9();
    engine.restart();
    // It may first find out that its connection is gone.
    eventually("it connects again", || process().is_ok_and(|second| second != first));
}

#[test]
fn redis_comes_back_with_its_data_or_without() {
    let mut engine = Redis::start();
    assert_eq!(engine.command(&["INCRBY", "tokens", "3"]), "3");
    engine.kill_9();
    assert!(TcpStream::connect(engine.addr()).is_err());
    engine.restart();
    assert_eq!(engine.command(&["GET", "tokens"]), "3");
    engine.kill_9();
    engine.restart_empty();
    assert_eq!(engine.command(&["EXISTS", "tokens"]), "0");
}

#[test]
fn redis_needs_its_password() {
    let engine = Redis::start();
    let mut client = TcpStream::connect(engine.addr()).unwrap();
    let mut response = [0; 7];
    client.write_all(b"PING\r\n").unwrap();
    client.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"-NOAUTH");
    assert_eq!(engine.url(), format!("redis://{}", engine.addr()));
}
