//! Two successive versions in one fleet: the next one has added to the schema, and may not remove
//! anything that this one uses.

use super::node::{Load, fleet_calls, is_up, node, send, states};
use crate::harness::{Postgres, eventually};
use std::time::Duration;

/// A step of the next version: it adds tables, columns with defaults, and an index.
const NEXT: &str = "BEGIN;
    ALTER TABLE weir.node ADD COLUMN zone text NOT NULL DEFAULT '';
    ALTER TABLE weir.bucket ADD COLUMN retries bigint NOT NULL DEFAULT 0;
    CREATE TABLE weir.zone (name text PRIMARY KEY);
    CREATE INDEX node_zone ON weir.node (zone);
    INSERT INTO weir.step (number, min_weir, by_weir)
        SELECT max(number) + 1, '0.1.0', '0.2.0' FROM weir.step;
    COMMIT";

#[test]
fn a_node_goes_on_while_the_next_version_adds_to_the_schema_and_writes_with_it() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let mut two = node("two", database.addr(), "").start();
    eventually("both have joined", || is_up(&one) && is_up(&two));
    let load = Load::start(&[one.listen[0], two.listen[0]], Duration::from_millis(5));
    eventually("calls are replicated", || fleet_calls(&one) > 50);
    // The upgrade of the first node.
    database.query(NEXT);
    // A node of the next version: its row, and calls that it counts, with what it has added.
    database.query(
        "INSERT INTO weir.node (id, name, boot, boot_token, until, state, version, digest, config_state,
             offset_ms, zone)
         SELECT 'aaaaaaaa-0000-4000-8000-000000000000', 'next', 1, gen_random_uuid(),
             now() + interval '1 hour', 'live', '0.2.0', digest, '{\"format\": 2}', 0, 'a'
         FROM weir.node WHERE name = 'one'",
    );
    let counted = "INSERT INTO weir.bucket SELECT DISTINCT ON (step) step, start,
             'aaaaaaaa-0000-4000-8000-000000000000'::uuid, series, 1, 1000000, 0, 0, 0, latency, 5
         FROM weir.bucket ORDER BY step, start DESC";
    database.query(counted);
    eventually("this version reads what the next one has written", || {
        states(&one).contains(&"next live".to_owned()) && fleet_calls(&one) > 1_000_000
    });
    // A downgrade: a node starts with the schema of the next version.
    two.kill();
    two.restart(&[]);
    eventually("it has joined again", || is_up(&two));
    let sent: usize = load.end().iter().map(|(responses, _)| responses).sum();
    eventually("no call is missing", || fleet_calls(&two) as usize >= sent + 1_000_000);
    let failures = one.metric("weir_fleet_failures_total", &[]);
    assert!(failures < 1.0, "no statement of this version has failed: {failures}");
}

/// The schema as an older version has made it.
const FIRST_STEP: &str = include_str!("../../../../weir-fleet/src/schema/01_members.sql");

#[test]
fn a_step_that_an_older_node_cannot_follow_is_rejected_while_that_node_is_live() {
    let database = Postgres::start();
    database.query(&format!(
        "BEGIN; CREATE SCHEMA weir; {FIRST_STEP}
         CREATE TABLE weir.step (number integer PRIMARY KEY, min_weir text NOT NULL, by_weir text NOT NULL,
             at timestamptz NOT NULL DEFAULT now());
         INSERT INTO weir.step VALUES (1, '0.0.9', '0.0.9');
         INSERT INTO weir.node (id, name, boot, boot_token, until, state, version, digest, config_state,
             offset_ms)
         VALUES (gen_random_uuid(), 'old', 1, gen_random_uuid(), now() + interval '1 hour', 'live', '0.0.9',
             '', '{{}}', 0);
         COMMIT"
    ));
    let one = node("one", database.addr(), "").start();
    let expected = "needs weir 0.1.0 or later, and the node `old` runs 0.0.9";
    eventually("it says why", || one.stderr().contains(expected));
    assert_eq!(database.query("SELECT count(*) FROM weir.step"), "1");
    send(&one, 3);
    // The last node of the older version has ended.
    database.query("UPDATE weir.node SET until = now() WHERE name = 'old'");
    eventually("it has joined", || is_up(&one));
    eventually("its calls are replicated", || fleet_calls(&one) == 3);
}
