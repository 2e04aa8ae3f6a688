use super::*;
use weir_config::load_text;
use weir_journal::Withheld;

fn config(more: &str) -> Config {
    let text = format!(
        "auth: {{keys: {{api_key: {{header: x-key}}}}, query: {{api_key: {{query: \"a key\"}}}}}}\n{more}"
    );
    load_text("weir.yaml", &text).finish().expect("a configuration").0
}

fn recorded() -> Transaction {
    let body = b"{\"a\":1}".to_vec();
    Transaction {
        id: [7; 16],
        api: "orders".to_owned(),
        method: "POST".to_owned(),
        target: "/a?x=1".to_owned(),
        client: "192.0.2.1".to_owned(),
        level: CaptureLevel::Body as u8,
        request_head:
            b"Host: a\r\nX-Own: mine\r\nX-Key: ***\r\nCookie: ***\r\nContent-Length: 7\r\n".to_vec(),
        request: BodyMetadata { length: 7, stored: 7, ..BodyMetadata::default() },
        request_body: body,
        outcome: Outcome::Failed,
        status: 503,
        ..Transaction::default()
    }
}

fn built(transaction: &Transaction, edit: &Edit) -> Result<ReplayRequest, RejectionReason> {
    build(transaction, edit, None, &config(""), 1)
}

fn with_body() -> Edit {
    Edit { body: Some(b"new".to_vec()), ..Edit::default() }
}

#[test]
fn it_is_what_was_recorded_without_credentials() {
    let request = built(&recorded(), &Edit::default()).unwrap();
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "X-Own", "Content-Length"]);
    assert_eq!((request.target.as_str(), request.body.as_slice()), ("/a?x=1", &b"{\"a\":1}"[..]));
    assert_eq!((request.original, request.edited), (u128::from_be_bytes([7; 16]), false));
    assert_eq!(request.client, "192.0.2.1".parse().ok());
}

#[test]
fn every_gap_in_a_record_has_its_reason_and_a_body_fills_it() {
    type Change = fn(&mut Transaction);
    let cases: [(Change, RejectionReason); 11] = [
        (|one| one.damaged = true, RejectionReason::Damaged),
        (|one| one.expired = true, RejectionReason::Expired),
        (|one| one.discarded = true, RejectionReason::Unrecorded),
        (|one| one.level = CaptureLevel::Meta as u8, RejectionReason::Unrecorded),
        (|one| one.level = CaptureLevel::Headers as u8, RejectionReason::Unrecorded),
        (|one| one.request.masked = true, RejectionReason::Masked(None)),
        (|one| one.request.withheld = Some(Withheld::Long), RejectionReason::Withheld),
        (|one| one.request.aborted = true, RejectionReason::Aborted),
        (|one| one.request.truncated = true, RejectionReason::Truncated),
        (|one| one.request.stored = 6, RejectionReason::Truncated),
        (|one| one.request_body.truncate(6), RejectionReason::Damaged),
    ];
    for (change, reason) in cases {
        let mut one = recorded();
        change(&mut one);
        assert_eq!(built(&one, &Edit::default()), Err(reason.clone()));
        let other = Edit { query: Some(String::new()), ..Edit::default() };
        assert_eq!(built(&one, &other), Err(reason.clone()), "another edit does not help");
        assert_eq!(built(&one, &with_body()).unwrap().body, b"new", "{reason:?}");
    }
    let attempt = Transaction { resubmission_of: [1; 16], ..recorded() };
    assert_eq!(built(&attempt, &with_body()), Err(RejectionReason::Attempt));
}

#[test]
fn what_was_masked_has_to_be_edited_itself() {
    let mut one = recorded();
    one.request_head.extend_from_slice(b"X-Secret: ***\r\n");
    let masked = |location: &str| Err(RejectionReason::Masked(Some(location.to_owned())));
    assert_eq!(built(&one, &with_body()), masked("the header `X-Secret`"));
    let set = vec![("x-secret".to_owned(), "b".to_owned())];
    let request = built(&one, &Edit { set, ..Edit::default() }).unwrap();
    assert_eq!(request.headers.last().unwrap(), &("x-secret".to_owned(), b"b".to_vec()));
    let remove = vec!["X-SECRET".to_owned()];
    assert!(built(&one, &Edit { remove, ..Edit::default() }).is_ok());

    let one = Transaction { target: "/a?pin=***&x=1".to_owned(), ..recorded() };
    assert_eq!(built(&one, &with_body()), masked("the query parameter `pin`"));
    let edit = Edit { query: Some("pin=4".to_owned()), ..Edit::default() };
    assert_eq!(built(&one, &edit).unwrap().target, "/a?pin=4");
    // A parameter that carries credentials just stays away.
    for (target, sent) in [
        ("/a?a+key=***&x=1", "/a?x=1"),
        ("/a?x=1&&a%20key=***&y", "/a?x=1&&y"),
        ("/a?a+key=***", "/a"),
        ("/a?", "/a?"),
    ] {
        let one = Transaction { target: target.to_owned(), ..recorded() };
        assert_eq!(built(&one, &Edit::default()).unwrap().target, sent);
    }
}

#[test]
fn an_edit_must_not_leave_what_was_masked() {
    let body = |text: &str| Edit { body: Some(text.into()), ..Edit::default() };
    let query = |text: &str| Edit { query: Some(text.to_owned()), ..Edit::default() };
    let header =
        |text: &str| Edit { set: vec![("x-own".to_owned(), text.to_owned())], ..Edit::default() };
    let mut one = recorded();
    one.request.masked = true;
    for (edit, place) in [
        (body("{\"card\": {\"number\": \"***\"}}"), "`$.card.number` of the body"),
        (body("a=b&pin=***"), "`pin` of the body"),
        (query("x=1&pin=***"), "query parameter `pin`"),
        (header("***"), "header `x-own`"),
        (header("http://a/?pin=***&b=c"), "header `x-own`"),
    ] {
        let why = edit.check_masked(&one).unwrap_err();
        assert!(why.contains(place), "{why}");
    }
    for edit in [body("{\"card\": \"4\"}"), query("pin=4"), header("a"), Edit::default()] {
        assert_eq!(edit.check_masked(&one), Ok(()));
    }
    // What the client itself sent is no mask.
    let text = b"{\"a\": \"***\"}".to_vec();
    let facts = BodyMetadata { length: 12, stored: 12, ..BodyMetadata::default() };
    let one = Transaction { request_body: text, request: facts, ..recorded() };
    assert_eq!(body("{\"a\": \"***\", \"b\": 1}").check_masked(&one), Ok(()));
    let lost = Transaction { expired: true, ..one };
    assert!(body("{\"a\": \"***\"}").check_masked(&lost).is_err());
}

#[test]
fn after_a_crash_the_head_says_whether_the_body_is_whole() {
    let interrupted = |method: &str, framing: &str, body: &[u8]| Transaction {
        outcome: Outcome::Interrupted,
        status: 0,
        method: method.to_owned(),
        request: BodyMetadata::default(),
        request_head: format!("Host: a\r\n{framing}").into_bytes(),
        request_body: body.to_vec(),
        ..recorded()
    };
    let whole =
        |method, framing, body| built(&interrupted(method, framing, body), &Edit::default()).err();
    assert_eq!(whole("POST", "Content-Length: 3\r\n", b"abc"), None);
    assert_eq!(whole("POST", "Content-Length: 4\r\n", b"abc"), Some(RejectionReason::Aborted));
    assert_eq!(whole("POST", "Content-Length: x\r\n", b""), Some(RejectionReason::Aborted));
    assert_eq!(
        whole("POST", "Transfer-Encoding: chunked\r\n", b"abc"),
        Some(RejectionReason::Aborted)
    );
    assert_eq!(whole("POST", "", b""), Some(RejectionReason::Aborted));
    assert_eq!(whole("GET", "", b""), None);
    let masks = config("tracker: {enabled: true, mask: {body: [\"$.card\"]}}");
    let one = interrupted("POST", "Content-Length: 3\r\n", b"abc");
    assert_eq!(build(&one, &Edit::default(), None, &masks, 1), Err(RejectionReason::Masked(None)));
}

#[test]
fn an_edited_body_is_in_no_coding() {
    let mut one = recorded();
    one.request_head.extend_from_slice(b"Content-Encoding: gzip\r\n");
    let coded = |request: &ReplayRequest| {
        request.headers.iter().any(|(name, _)| name == "Content-Encoding")
    };
    assert!(coded(&built(&one, &Edit::default()).unwrap()));
    assert!(!coded(&built(&one, &with_body()).unwrap()));
}

#[test]
fn edits_are_bounded_and_name_nobody() {
    let config = config("");
    let refused = |edit: Edit| edit.check(&config).unwrap_err();
    let set = |name: &str, value: &str| Edit {
        set: vec![(name.to_owned(), value.to_owned())],
        ..Edit::default()
    };
    for name in ["X-Key", "authorization", "Host", "weir-x", "X-Forwarded-For", "", "a b"] {
        refused(set(name, "v3cret"));
        refused(Edit { remove: vec![name.to_owned()], ..Edit::default() });
    }
    for value in ["a\r\nb: c", "a\0", "a\u{7f}"] {
        assert!(!refused(set("x-a", value)).contains(value));
    }
    refused(set("x-a", &"a".repeat(MAX_VALUE_BYTES + 1)));
    refused(Edit { body: Some(vec![0; MAX_BODY_BYTES + 1]), ..Edit::default() });
    refused(Edit { remove: vec!["x-a".to_owned(); MAX_EDITS + 1], ..Edit::default() });
    for query in ["a b", "a#b", "a\nb", "é", "x=1&a+key=2", "x=1&%61%20key=2"] {
        refused(Edit { query: Some(query.to_owned()), ..Edit::default() });
    }
    assert_eq!(set("x-own", "ü\tv").check(&config), Ok(()));
}

#[test]
fn a_difference_has_no_values() {
    let edit = Edit {
        query: Some("pin=4711".to_owned()),
        set: vec![("x-own".to_owned(), "4711".to_owned())],
        remove: vec!["x-b".to_owned()],
        body: Some(b"4711".to_vec()),
    };
    let difference = edit.difference(&recorded());
    assert_eq!(
        difference,
        "{\"query\":true,\"headers_set\":[\"x-own\"],\"headers_removed\":[\"x-b\"],\
         \"body\":{\"before\":7,\"after\":4}}"
    );
    assert_eq!(Edit::default().difference(&recorded()), "");
    assert!(!format!("{edit:?}").contains("4711"));
}
