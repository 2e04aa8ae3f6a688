//! What ends a head, what can never become one, and that it does not matter how bytes come.

use super::{HeadError, HeadLimits, Scan, has_token};
use crate::RequestHead;

const SMALL: HeadLimits = HeadLimits { bytes: 100, fields: 3, target: 10 };

fn whole(text: &str, limits: &HeadLimits) -> Result<Option<usize>, HeadError> {
    RequestHead::default().parse(text.as_bytes(), &mut Scan::new(), limits)
}

/// The first answer that is not "more", with one byte coming at a time.
fn byte_by_byte(text: &str, limits: &HeadLimits) -> Result<Option<usize>, HeadError> {
    let (mut head, mut scan) = (RequestHead::default(), Scan::new());
    for end in 0..=text.len() {
        match head.parse(&text.as_bytes()[..end], &mut scan, limits) {
            Ok(None) => {}
            found => return found,
        }
    }
    Ok(None)
}

#[test]
fn finds_the_end_of_a_head() {
    for (text, found) in [
        ("", None),
        ("GET / HTTP/1.1\r\n", None),
        ("GET / HTTP/1.1\r\nA: b\r\n\r", None),
        ("GET / HTTP/1.0\r\n\r\n", Some(18)),
        ("GET / HTTP/1.0\r\nA: b\r\n\r\nrest\n", Some(24)),
        ("\r\nGET / HTTP/1.0\r\n\r\n", Some(20)),
        ("\r\n\r\nGET / HTTP/1.0\r\n\r\n", Some(22)),
    ] {
        assert_eq!(whole(text, &HeadLimits::default()), Ok(found), "{text:?}");
        assert_eq!(byte_by_byte(text, &HeadLimits::default()), Ok(found), "{text:?}");
    }
}

#[test]
fn refuses_what_can_never_become_a_head() {
    use HeadError::{BareCr, BareLf, Folded, StartLine, TargetTooLong, TooLong, TooManyFields};
    let long_target = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(80));
    let long_field = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(80));
    for (text, error) in [
        ("\nGET / HTTP/1.1\r\n\r\n", BareLf),
        ("GET / HTTP/1.1\n\r\n", BareLf),
        ("GET / HTTP/1.1\r\nA: b\n\r\n", BareLf),
        ("GET / HTTP/1.1\r\nA: b\r\n\n", BareLf),
        ("GET / HTTP/1.1\rA", BareCr),
        ("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", BareCr),
        ("GET / HTTP/1.1\r\nA: b\r\r\n", BareCr),
        ("GET / HTTP/1.1\r\n A: b\r\n\r\n", Folded),
        ("GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", Folded),
        ("GET / HTTP/1.1\r\n \r\n\r\n", Folded),
        ("\r\n\r\n\r\nGET", StartLine),
        (" GET / HTTP/1.1\r\n\r\n", StartLine),
        ("\r\n\x16\x03\x01", StartLine),
        ("\x16\x03\x01", StartLine),
        ("GET / HTTP/1.1\r\na:b\r\na:b\r\na:b\r\na:b\r\n\r\n", TooManyFields),
        (&long_target, TargetTooLong),
        (&long_field, TooLong),
    ] {
        assert_eq!(whole(text, &SMALL), Err(error), "{text:?}");
        assert_eq!(byte_by_byte(text, &SMALL), Err(error), "{text:?} byte by byte");
    }
}

#[test]
fn a_head_of_exactly_the_limit_is_accepted() {
    let head = |padding: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "a".repeat(padding));
    let fits = head(100 - head(0).len());
    assert_eq!(whole(&fits, &SMALL), Ok(Some(100)));
    assert_eq!(byte_by_byte(&fits, &SMALL), Ok(Some(100)));
    let over = head(101 - head(0).len());
    assert_eq!(whole(&over, &SMALL), Err(HeadError::TooLong));
    assert_eq!(byte_by_byte(&over, &SMALL), Err(HeadError::TooLong));
}

#[test]
fn of_two_faults_the_first_counts_however_the_bytes_come() {
    let late_lf = format!("GET / HTTP/1.1\r\nA: {}\n\r\n", "a".repeat(90));
    let late_fold = format!("GET / HTTP/1.1\r\n {}\r\n\r\n", "a".repeat(90));
    let late_name = "GET / HTTP/1.1\r\nA@: b\n".to_owned();
    for (text, error) in [
        (late_lf, HeadError::TooLong),
        (late_fold, HeadError::Folded),
        (late_name, HeadError::FieldName),
    ] {
        assert_eq!(whole(&text, &SMALL), Err(error), "{text:?}");
        assert_eq!(byte_by_byte(&text, &SMALL), Err(error), "{text:?}");
    }
}

#[test]
fn a_fault_in_a_line_counts_when_the_line_has_ended() {
    for text in ["GE\x01T / HTT", "GET / HTTP/1.1\r\nA@: b", "GET / HTTP/1.1\r\nA: b\x01"] {
        assert_eq!(whole(text, &SMALL), Ok(None), "{text:?}");
        assert_eq!(byte_by_byte(text, &SMALL), Ok(None), "{text:?}");
        let ended = format!("{text}\r\n");
        assert!(whole(&ended, &SMALL).is_err(), "{ended:?}");
        assert_eq!(whole(&ended, &SMALL), byte_by_byte(&ended, &SMALL), "{ended:?}");
    }
}

#[test]
fn empty_lines_are_no_part_of_the_limit() {
    let head = format!("\r\n\r\nGET / HTTP/1.0\r\nA: {}\r\n\r\n", "a".repeat(77));
    assert_eq!(whole(&head, &SMALL), Ok(Some(104)));
    assert_eq!(byte_by_byte(&head, &SMALL), Ok(Some(104)));
}

#[test]
fn tokens_are_found_in_lists_whole_and_in_any_case() {
    let has = |values: &[&str], token| has_token(values.iter().map(|v| v.as_bytes()), token);
    assert!(has(&["keep-alive"], "keep-alive"));
    assert!(has(&["a, Close ,b"], "close"));
    assert!(has(&["a", "close"], "close"));
    assert!(!has(&["closed"], "close"));
    assert!(!has(&["not close"], "close"));
    assert!(!has(&[], "close"));
}
