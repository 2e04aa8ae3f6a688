use super::*;
use std::collections::HashMap;

#[test]
fn arrays_have_the_exact_size() {
    // As with WSO2's generator: the last item is longer where no further item fits.
    let fifty = array(50).expect("possible");
    assert_eq!(
        String::from_utf8(fifty).expect("text"),
        r#"{"size":"50B","payload":["0123456789","ABCDEFGH"]}"#
    );
    for size in (30..400).chain([1024, 10_240, 102_400]) {
        let body = array(size).expect("possible");
        assert_eq!(body.len() as u64, size);
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(json["size"], format!("{size}B"));
        let items = json["payload"].as_array().expect("a list");
        let (last, full) = items.split_last().expect("one at least");
        assert!(full.iter().all(|item| item.as_str().is_some_and(|text| text.len() == 10)));
        assert!(last.as_str().is_some_and(|text| text.len() <= 13), "{size}");
    }
}

#[test]
fn impossible_bodies_are_rejected() {
    assert!(matches!(array(10), Err(GenerateError::TooShort { shortest: 29, .. })));
    assert!(matches!(array(MAX_BYTES + 1), Err(GenerateError::TooLarge)));
    assert!(matches!(grid(u32::MAX, u32::MAX), Err(GenerateError::TooLarge)));
    let huge = Corpus { documents: u32::MAX, words: u32::MAX, ..Corpus::default() };
    assert!(matches!(Payload::Corpus(huge).make(), Err(GenerateError::TooLarge)));
    assert!(matches!(Payload::File("/dev/zero".into()).make(), Err(GenerateError::File(_))));
    assert!(matches!(Payload::File("/nowhere".into()).make(), Err(GenerateError::File(_))));
}

#[test]
fn grids_are_near_the_sizes_of_the_published_tests() {
    for (side, published) in [(5, 1_000), (10, 4_400), (20, 18_000), (40, 70_000)] {
        let body = grid(side, side).expect("possible");
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let rows = json.as_array().expect("a list");
        assert_eq!(rows.len(), side as usize);
        assert!(rows.iter().all(|row| row.as_object().is_some_and(|o| o.len() == side as usize)));
        assert!(body.len().abs_diff(published) * 8 < published, "{side}: {}", body.len());
    }
    assert_eq!(grid(0, 0).expect("possible"), b"[]");
}

#[test]
fn a_corpus_is_the_same_every_time_and_follows_its_law() {
    let corpus = Corpus { documents: 200, ..Corpus::default() };
    let documents = Payload::Corpus(corpus.clone()).make().expect("possible");
    assert_eq!(documents, Payload::Corpus(corpus).make().expect("possible"));
    assert_eq!(documents.len(), 200);
    let mut counts: HashMap<String, u32> = HashMap::new();
    for document in &documents {
        let json: serde_json::Value = serde_json::from_slice(document).expect("JSON");
        let text = json["text"].as_str().expect("a text");
        assert_eq!(text.split(' ').count(), 100);
        text.split(' ').for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // Of 20,000 words the first has a share of 1 / H(20,000) = 9.5 %, the second half of that.
    let share = |rank: usize| f64::from(counts[rank]) / 20_000.0;
    assert!((share(0) - 0.095).abs() < 0.01, "{}", share(0));
    assert!((share(1) - 0.048).abs() < 0.01, "{}", share(1));
    assert!(counts.len() > 4_000, "most words are rare: {}", counts.len());
}
