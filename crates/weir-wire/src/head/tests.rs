//! Looking up, replacing and removing fields.

use super::{Headers, Known};

fn sample() -> Headers {
    let mut headers = Headers::new();
    headers.push("Host", b"a");
    headers.push("X-One", b"1");
    headers.push("x-one", b"2");
    headers.push("Cookie", b"c");
    headers
}

#[test]
fn names_are_found_in_any_case_and_kept_as_they_came() {
    let headers = sample();
    assert_eq!(headers.get("HOST"), Some(&b"a"[..]));
    assert_eq!(headers.known(Known::Host), Some(&b"a"[..]));
    assert_eq!(headers.get("X-ONE"), Some(&b"1"[..]));
    assert_eq!(headers.get("x-on"), None);
    assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [b"1", b"2"]);
    let names: Vec<_> = headers.iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["Host", "X-One", "x-one", "Cookie"]);
}

#[test]
fn setting_replaces_every_field_of_the_name() {
    let mut headers = sample();
    headers.set("X-one", b"3");
    assert_eq!(headers.get_all("x-one").collect::<Vec<_>>(), [b"3"]);
    assert_eq!(headers.len(), 3);
    headers.set("host", b"b");
    assert_eq!(headers.known_all(Known::Host).collect::<Vec<_>>(), [b"b"]);
}

#[test]
fn removing_and_retaining() {
    let mut headers = sample();
    headers.remove("cookie");
    headers.remove("x-ONE");
    headers.remove("absent");
    assert_eq!(headers.iter().map(|(_, name, _)| name).collect::<Vec<_>>(), ["Host"]);
    let mut headers = sample();
    headers.retain(|known, name, value| known == Known::Cookie || (name, value) == ("x-one", b"2"));
    assert_eq!(headers.iter().map(|(_, _, value)| value).collect::<Vec<_>>(), [b"2", b"c"]);
    headers.clear();
    assert!(headers.is_empty());
}
