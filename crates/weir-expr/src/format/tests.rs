//! Tests of the formats.

use super::*;

fn json(text: &str, indent: usize) -> String {
    let out = Format::Json { indent }.render(text.as_bytes()).expect("valid");
    String::from_utf8(out).expect("UTF-8")
}

fn as_xml(text: &str, indent: usize) -> String {
    let format = Format::Xml(xml::XmlWriting {
        root: "response".to_owned(),
        namespaces: Vec::new(),
        content_type: "application/xml".to_owned(),
        indent,
    });
    let out = String::from_utf8(format.render(text.as_bytes()).expect("valid")).expect("UTF-8");
    out.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("declared").to_owned()
}

#[test]
fn the_published_body_is_52_bytes() {
    let body = json(r#"{"result": "OK", "message": "Hello World"}"#, 4);
    assert_eq!(body, "{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}");
    assert_eq!(body.len(), 52);
}

#[test]
fn compact_json_keeps_order_digits_and_escapes() {
    let text = r#" { "z" : 1.10 , "a" : [ ] , "s" : "a\"\\ b:,{" , "o" : { } , "n": [1, [2]] } "#;
    assert_eq!(json(text, 0), r#"{"z":1.10,"a":[],"s":"a\"\\ b:,{","o":{},"n":[1,[2]]}"#);
}

#[test]
fn indented_json_is_what_serde_prints() {
    let text = r#"{"a":[1,[],{},{"b":[true,null]}],"c":"x"}"#;
    let value: serde_json::Value = serde_json::from_str(text).expect("valid");
    assert_eq!(json(text, 2), serde_json::to_string_pretty(&value).expect("prints"));
}

#[test]
fn members_become_elements_and_arrays_repeat() {
    assert_eq!(
        as_xml(r#"{"result":"OK","n":[1,2,{"a":null}],"empty":[],"deep":[[3],[]]}"#, 0),
        "<response><result>OK</result><n>1</n><n>2</n><n><a/></n><deep><item>3</item></deep><deep></deep></response>"
    );
}

#[test]
fn a_root_array_has_items_and_a_scalar_is_text() {
    assert_eq!(
        as_xml("[1,{\"a\":2}]", 0),
        "<response><item>1</item><item><a>2</a></item></response>"
    );
    assert_eq!(as_xml("true", 0), "<response>true</response>");
    assert_eq!(as_xml("null", 0), "<response/>");
}

#[test]
fn indented_xml() {
    assert_eq!(
        as_xml(r#"{"result":"OK","list":[{"a":1}],"none":{}}"#, 4),
        "<response>\n    <result>OK</result>\n    <list>\n        <a>1</a>\n    </list>\n    <none></none>\n</response>"
    );
}

#[test]
fn names_and_texts_are_made_valid() {
    assert_eq!(
        as_xml("{\"1 a\":\"<&\\u0001\",\"\":1,\"x:y\":\"ok\"}", 0),
        "<response><_1_a>&lt;&amp;\u{FFFD}</_1_a><_>1</_><x_y>ok</x_y></response>"
    );
}

#[test]
fn what_is_no_json_is_refused_and_depth_is_no_danger() {
    let format = Format::Json { indent: 2 };
    assert!(format.render(b"{\"a\":1} x").is_err());
    assert!(format.render(b"{\"a\":\"\xff\"}").is_err());
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(json(&deep, 0), deep);
    assert!(as_xml(&deep, 0).len() > deep.len());
}
