//! Which body and which response is meant.

use super::*;

fn json_body() -> Content {
    let check = BodyCheck::Json(Some(SchemaId(0)));
    Content { range: "application/json".to_owned(), check }
}

#[test]
fn the_most_exact_media_type_decides() {
    let content = |range: &str| Content { range: range.to_owned(), check: BodyCheck::Nothing };
    let contents = vec![content("application/json"), content("text/*"), content("*/*")];
    let body = RequestBody { required: true, contents };
    let range = |value: &str| body.content(Some(value.as_bytes())).unwrap().range.clone();
    assert_eq!(range("Application/JSON; charset=utf-8"), "application/json");
    assert_eq!(range("text/csv"), "text/*");
    assert_eq!(range("image/png"), "*/*");
    assert_eq!(body.content(None).unwrap().range, "*/*");
    let only = RequestBody { required: false, contents: vec![json_body()] };
    assert!(only.content(None).is_ok());
    assert_eq!(only.content(Some(b"text/plain")).unwrap_err(), "the body must be application/json");
}

#[test]
fn the_most_exact_status_decides() {
    let answer = |status, contents| Answer { status, contents };
    let mut validation = Validation {
        requests: Enforcement::Off,
        responses: Enforcement::Enforce,
        parameters: Vec::new(),
        body: None,
        answers: vec![
            answer(Statuses::One(200), vec![json_body()]),
            answer(Statuses::Class(2), Vec::new()),
        ],
    };
    assert!(validation.answer(200, Some(b"application/json")).unwrap().is_some());
    assert_eq!(validation.answer(200, Some(b"text/html")).unwrap_err().place, Place::Header);
    assert!(validation.answer(204, None).unwrap().is_none());
    assert_eq!(validation.answer(404, None).unwrap_err().place, Place::Status);
    validation.answers.push(answer(Statuses::Others, Vec::new()));
    assert!(validation.answer(404, None).unwrap().is_none());
}
