//! Words are found in whatever form they were recorded.

use std::time::Duration;

use weir_journal::{Completed, Outcome, Position, Received, Side};

use super::hostile::gzip;
use super::{Bench, NOON, append, id, number, settings, until_there_is_room};
use crate::Query;
use crate::search::check::Subject;

/// Words that occur next to each other in any order: one is longer than what is compared of a word, two are not
/// ASCII, and one of these has only ASCII letters in lower case (it begins with a Kelvin sign).
const WORDS: [&str; 9] = [
    "alpha",
    "beta",
    "al",
    "17",
    "x_1",
    "gamma",
    "caf\u{e9}",
    "\u{212a}elvin",
    "long678901234567890123456789012345678901234567890123456789012345678901234567890",
];

/// Text of some words, with separators of any kind.
fn text(random: &mut fastrand::Rng) -> String {
    let separators = [" ", " ", " ", ", ", "-", "\n", "=", "&"];
    (0..random.usize(1..5)).fold(String::new(), |text, _| {
        let word = WORDS[random.usize(..WORDS.len())];
        let word = if random.u8(..4) == 0 { word.to_uppercase() } else { word.to_owned() };
        text + separators[random.usize(..separators.len())] + &word
    })
}

/// A head and a body that has the words in one of the forms that are searched.
fn body(random: &mut fastrand::Rng) -> (&'static [u8], Vec<u8>) {
    let text = text(random);
    let escaped = || {
        let escape = |letter: char| match letter {
            'a' => "\\u0061".to_owned(),
            '\n' => "\\n".to_owned(),
            // Not an escape of JSON: the letter remains.
            'm' => "\\m".to_owned(),
            other => other.to_string(),
        };
        format!("{{\"text\":\"{}\"}}", text.chars().map(escape).collect::<String>())
    };
    match random.u8(..7) {
        0 => (b"Content-Encoding: gzip\r\n", gzip(text.as_bytes())),
        1 => (b"content-type: application/json\r\n", escaped().into_bytes()),
        2 => {
            let form = text.replace('a', "%61").replace(' ', "+").into_bytes();
            (b"content-type: application/x-www-form-urlencoded\r\n", form)
        }
        3 => (b"content-type: application/json\r\n", serde_json::to_vec(&text).unwrap()),
        4 => (b"content-type: image/png\r\n", text.into_bytes()),
        _ => (b"content-type: text/plain\r\n", text.into_bytes()),
    }
}

fn write(bench: &mut Bench, random: &mut fastrand::Rng, number: u64) {
    let (head, request_body) = body(random);
    let header = format!("x-text: {}\r\n", text(random).replace('\n', " "));
    let head = [head, header.as_bytes()].concat();
    let target = format!("/{}", text(random).replace(['\n', ' '], "/").replace('b', "%62"));
    let (response_head, response_body) = body(random);
    let property = text(random);
    let filler = "f".repeat(random.usize(..8000));
    let received = Received {
        id: id(number).to_be_bytes(),
        received_us: NOON + number,
        target: &target,
        head: &head,
        ..Received::default()
    };
    let mut completed = Completed {
        status: 200,
        outcome: if random.u8(..5) == 0 { Outcome::Failed } else { Outcome::Completed },
        head: response_head,
        request_body: &request_body,
        response_body: &response_body,
        properties: &[("al", &property), ("filler", &filler)],
        logs: &[&text(random)],
        ..Completed::default()
    };
    if random.bool() {
        return append(&mut bench.lanes[0], &received, &completed);
    }
    // In parts, which a word may lie across.
    let lane = &mut bench.lanes[0];
    let handle = until_there_is_room(|| lane.start(&received));
    for part in request_body.chunks(7) {
        until_there_is_room(|| lane.part(handle, Side::Request, part));
    }
    completed.request_body = b"";
    until_there_is_room(|| lane.complete(handle, &completed));
}

#[test]
fn words_and_phrases_are_found_in_every_form_in_which_they_are_recorded() {
    let mut random = fastrand::Rng::with_seed(22);
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, settings());
    (0..700).for_each(|number| write(&mut bench, &mut random, number));
    bench.indexer.catch_up().unwrap();
    bench.indexer.seal().unwrap();
    // The journal seals what the index has.
    while bench.journal.statistics().sealed < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    (700..1200).for_each(|number| write(&mut bench, &mut random, number));
    bench.indexer.catch_up().unwrap();
    let mut all = Vec::new();
    let mut reader = bench.journal.reader(0, Position::START);
    while let Some(transaction) = reader.next_transaction().unwrap() {
        all.push(transaction);
    }
    for is_indexed in [false, true] {
        for _ in 0..25 {
            let words = (0..random.usize(1..4)).map(|_| WORDS[random.usize(..WORDS.len())]);
            let phrase = words.collect::<Vec<_>>().join(" ");
            let scope = ["", "body:", "target:", "header:", "header.x-text:"][random.usize(..5)];
            let text = match random.u8(..4) {
                0 => format!("{scope}\"{phrase}\" status:200 (state:failed OR body:alpha)"),
                1 => format!("{scope}\"{phrase}\" -\"beta al\""),
                _ => format!("{scope}\"{phrase}\""),
            };
            let query = Query::parse(&text, NOON).unwrap();
            let mut expected: Vec<u64> = all
                .iter()
                .map(|transaction| Subject::new(transaction, None))
                .filter(|subject| subject.matches(&query.root))
                .map(|subject| number(subject.row.id))
                .collect();
            expected.sort_unstable_by(|one, other| other.cmp(one));
            assert_eq!(bench.numbers(&text, 50), expected, "{text}");
            let counts = bench.index.count(&query, Duration::from_secs(60), false).unwrap();
            assert_eq!(counts.matched, expected.len() as u64, "{text}");
        }
        if !is_indexed {
            bench.indexer.seal().unwrap();
        }
    }
}
