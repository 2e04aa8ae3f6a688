//! Phrases of words that every transaction has.

use std::fmt::Write;

use weir_journal::{Completed, Received};

use super::{Bench, NOON, append, id, settings};
use crate::Query;
use crate::search::evaluate::{View, evaluate};

const COUNT: u64 = 3000;
/// Those with `alpha` before `omega`, at the beginning, in the middle and at the end of the part.
const WITH: [u64; 4] = [2990, 2500, 1300, 17];

/// The same words in each, in the order of its number.
fn text(number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(number);
    let mut others: Vec<u32> = (0..20).collect();
    random.shuffle(&mut others);
    let middle = if WITH.contains(&number) { "alpha omega " } else { "alpha, then omega " };
    others.iter().enumerate().fold(String::new(), |mut text, (place, other)| {
        let _ = write!(text, "w{other} {}", if place == 9 { middle } else { "" });
        text
    })
}

fn write(bench: &mut Bench, number: u64) {
    let text = text(number);
    let received = Received {
        id: id(number).to_be_bytes(),
        received_us: NOON + number,
        ..Received::default()
    };
    let completed = Completed { response_body: text.as_bytes(), ..Completed::default() };
    append(&mut bench.lanes[0], &received, &completed);
}

/// Rows of the only part that a query has to look through.
fn candidates(bench: &Bench, query: &str) -> (u64, u64) {
    let query = Query::parse(query, NOON).unwrap();
    let state = bench.index.shared.state.read();
    let found = match state.sealed.first() {
        Some(part) => evaluate(&query.root, &View::sealed(part).unwrap()),
        None => evaluate(&query.root, &View::Open(&state.open)),
    };
    (found.unwrap().candidates.count(), COUNT)
}

#[test]
fn phrases_of_common_words_are_found_and_looked_for_only_where_they_may_be() {
    let mut bench = Bench::new(1);
    (0..COUNT).for_each(|number| write(&mut bench, number));
    bench.indexer.catch_up().unwrap();
    let check = |bench: &Bench| {
        assert_eq!(bench.numbers("alpha omega", 1000).len() as u64, COUNT);
        assert_eq!(bench.numbers("\"alpha omega\"", 50), WITH);
        assert_eq!(bench.numbers("body:\"Alpha-OMEGA\"", 50), WITH);
        assert_eq!(bench.numbers("\"omega alpha\"", 50), [0; 0]);
        // Three words have two pairs.
        for number in [3, 1500, 2700] {
            let text = text(number);
            let words: Vec<&str> = text.split(' ').take(3).collect();
            assert!(bench.numbers(&format!("\"{}\"", words.join(" ")), 50).contains(&number));
        }
        let (rows, all) = candidates(bench, "alpha omega");
        assert_eq!(rows, all);
        let (rows, all) = candidates(bench, "\"alpha omega\"");
        assert!(rows < all && rows > 1024, "{rows}");
    };
    check(&bench);
    bench.indexer.seal().unwrap();
    check(&bench);
    let bench = bench.reopen(settings());
    check(&bench);
}
