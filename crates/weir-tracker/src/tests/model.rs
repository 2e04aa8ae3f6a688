//! Searches against a plain reading of everything.

use proptest::prelude::*;
use weir_journal::Position;

use super::{Bench, NOON, number};
use crate::Query;
use crate::search::check::Subject;

fn queries() -> impl Strategy<Value = String> {
    let term = prop::sample::select(vec![
        "common",
        "unique7",
        "unique63",
        "bulk6",
        "absent",
        "api:orders",
        "api:inv*",
        "consumer:*",
        "method:GET",
        "status:5xx",
        "status:<500",
        "took:>50ms",
        "key.order:A-64",
        "key.order:*",
        "body:thanks",
        "body:\"for all\"",
        "header.x-foo:baz",
        "header.absent:*",
        "target:things",
        "time:<2026-11-20T12:00:00",
        "state:failed",
        "body:*",
        "id:0197",
        "café",
    ])
    .prop_map(str::to_owned);
    term.prop_recursive(4, 24, 4, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            many.clone().prop_map(|terms| format!("({})", terms.join(" "))),
            many.prop_map(|terms| format!("({})", terms.join(" OR "))),
            inner.prop_map(|term| format!("-{term}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn searches_find_what_a_plain_reading_finds(
        queries in prop::collection::vec(queries(), 10),
        sealed in 0u64..150,
        open in 0u64..150,
        unread in 0u64..40,
        limit in 9usize..60,
    ) {
        let mut bench = Bench::new(2);
        (0..sealed).for_each(|number| bench.write(number));
        bench.indexer.catch_up().unwrap();
        bench.indexer.seal().unwrap();
        (sealed..sealed + open).for_each(|number| bench.write(number));
        bench.indexer.catch_up().unwrap();
        (sealed + open..sealed + open + unread).for_each(|number| bench.write(number));
        let mut all = Vec::new();
        for lane in 0..2 {
            let mut reader = bench.journal.reader(lane, Position::START);
            while let Some(transaction) = reader.next_transaction().unwrap() {
                all.push(transaction);
            }
        }
        for text in queries {
            let query = Query::parse(&text, NOON).unwrap();
            let subjects = all.iter().map(|transaction| Subject::new(transaction, None));
            let mut expected: Vec<u64> = subjects
                .filter(|subject| subject.matches(&query.root))
                .map(|subject| number(subject.row.id))
                .collect();
            expected.sort_unstable_by(|one, other| other.cmp(one));
            prop_assert_eq!(bench.numbers(&text, limit), expected.clone(), "{}", text);
            let counts = bench.index.count(&query, std::time::Duration::from_secs(60), false).unwrap();
            prop_assert_eq!(counts.matched, expected.len() as u64, "{}", text);
        }
    }
}
