//! Tests of the convention, in both directions.

use super::*;
use proptest::prelude::*;

fn read_by(reading: &XmlReading, xml: &str) -> Result<String, XmlError> {
    let mut out = Vec::new();
    reading.read(xml.as_bytes(), None, &mut out)?;
    Ok(String::from_utf8(out).expect("UTF-8"))
}

fn json(xml: &str) -> String {
    read_by(&XmlReading::default(), xml).expect("reads")
}

fn soap() -> Vec<Namespace> {
    let of = |prefix: &str, uri: &str| Namespace { prefix: prefix.to_owned(), uri: uri.to_owned() };
    vec![of("soap", "http://schemas.xmlsoap.org/soap/envelope/"), of("o", "urn:orders")]
}

fn xml(json: &str, root: &str, namespaces: Vec<Namespace>) -> String {
    let (root, content_type) = (root.to_owned(), "application/xml".to_owned());
    let writing = XmlWriting { root, namespaces, content_type, indent: 0 };
    let out = write(json, &writing).expect("writes");
    out.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("declared").to_owned()
}

#[test]
fn the_documented_example_goes_both_ways() {
    let text = r##"{"@id":"7","item":["a","b"],"note":{"@lang":"en","#text":"x"},"gift":null}"##;
    let document =
        r#"<order id="7"><item>a</item><item>b</item><note lang="en">x</note><gift/></order>"#;
    assert_eq!(json(document), format!("{{\"order\":{text}}}"));
    assert_eq!(xml(text, "order", Vec::new()), document);
}

#[test]
fn white_space_between_elements_is_nothing_and_in_a_leaf_it_stays() {
    assert_eq!(json("<a>\n  <b> x </b>\n</a>\n"), r#"{"a":{"b":" x "}}"#);
    assert_eq!(json("<a>\n one <b/> two\n</a>"), r##"{"a":{"b":null,"#text":"one  two"}}"##);
    assert_eq!(
        json("<a xml:space=\"preserve\"> one <b/></a>"),
        r##"{"a":{"@xml:space":"preserve","b":null,"#text":" one "}}"##
    );
    assert_eq!(json("<a><![CDATA[<b>&]]></a>"), r#"{"a":"<b>&"}"#);
    assert_eq!(json("<a>&lt;&#233;&#x20AC;&quot;</a>"), "{\"a\":\"<é€\\\"\"}");
}

#[test]
fn elements_of_one_name_are_an_array_wherever_they_stand() {
    assert_eq!(json("<a><b>1</b><c/><b>2</b></a>"), r#"{"a":{"b":["1","2"],"c":null}}"#);
    let reading = XmlReading { arrays: vec!["b".to_owned()], ..XmlReading::default() };
    assert_eq!(read_by(&reading, "<a><b>1</b></a>").expect("reads"), r#"{"a":{"b":["1"]}}"#);
}

#[test]
fn typed_values_are_what_json_takes_for_such() {
    let reading = XmlReading { typed: true, ..XmlReading::default() };
    let read = read_by(
        &reading,
        r#"<a n="1.50"><b>true</b><c> -2e3 </c><d>007</d><e>NaN</e><f>1 2</f></a>"#,
    );
    let wanted = r#"{"a":{"@n":1.50,"b":true,"c":-2e3,"d":"007","e":"NaN","f":"1 2"}}"#;
    assert_eq!(read.expect("reads"), wanted);
}

#[test]
fn names_do_not_depend_on_the_prefixes_of_a_sender() {
    let reading = XmlReading { namespaces: soap(), ..XmlReading::default() };
    let wanted =
        r#"{"soap:Envelope":{"soap:Body":{"o:order":{"@id":"1","@o:by":"x","o:sku":"a"}}}}"#;
    for document in [
        r#"<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:o="urn:orders"><soap:Body><o:order id="1" o:by="x"><o:sku>a</o:sku></o:order></soap:Body></soap:Envelope>"#,
        r#"<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><order xmlns="urn:orders" xmlns:q="urn:orders" id="1" q:by="x"><sku>a</sku></order></S:Body></S:Envelope>"#,
    ] {
        assert_eq!(read_by(&reading, document).expect("reads"), wanted);
    }
    let other = read_by(&reading, r#"<o:a xmlns:o="urn:else"><b/></o:a>"#);
    assert_eq!(other.expect("reads"), r#"{"{urn:else}a":{"b":null}}"#);
}

#[test]
fn prefixes_are_written_if_they_are_declared() {
    let text = r#"{"soap:Body":{"o:order":{"o:sku":"a","@o:by":"<x>","x:y":1,"@x:z":"2"}}}"#;
    assert_eq!(
        xml(text, "soap:Envelope", soap()),
        concat!(
            r#"<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:o="urn:orders">"#,
            r#"<soap:Body><o:order o:by="&lt;x&gt;" x_z="2"><o:sku>a</o:sku><x_y>1</x_y></o:order>"#,
            "</soap:Body></soap:Envelope>"
        )
    );
}

#[test]
fn attributes_come_from_members_in_any_order_and_never_twice() {
    assert_eq!(
        xml(r#"{"b":{"c":1,"@d":"x"},"@a":true,"@n":null,"@o":{"p":1},"@q":[2]}"#, "r", Vec::new()),
        r#"<r a="true"><b d="x"><c>1</c></b><_o><p>1</p></_o><_q>2</_q></r>"#
    );
    assert_eq!(xml(r#"{"@a b":"1","@a_b":"2"}"#, "r", Vec::new()), r#"<r a_b="1"></r>"#);
    assert_eq!(
        xml("{\"@a\":\"\\\"<\\n\\u0000\"}", "r", Vec::new()),
        "<r a=\"&quot;&lt;&#10;\u{FFFD}\"></r>"
    );
    assert_eq!(
        xml(r##"[{"@a":1},{"#text":"x & y"}]"##, "r", Vec::new()),
        r#"<r><item a="1"></item><item>x &amp; y</item></r>"#
    );
}

#[test]
fn malformed_documents_say_what_and_where() {
    let error =
        |xml: &str| read_by(&XmlReading::default(), xml).expect_err("is refused").to_string();
    assert_eq!(error(""), "no root element at byte 0");
    assert_eq!(error("<a><b></a>"), "mismatched start and end tags at byte 6");
    assert_eq!(error("<a>"), "unexpected end within an element at byte 3");
    assert_eq!(error("<a/><b/>"), "second root element at byte 4");
    assert_eq!(error("x<a/>"), "text outside of elements at byte 0");
    assert_eq!(error("<a b='1' b='2'/>"), "malformed attribute at byte 0");
    assert_eq!(error("<p:a/>"), "undeclared namespace prefix at byte 0");
    assert_eq!(error("<1/>"), "invalid name at byte 0");
    assert!(error("<a>&secret;</a>").contains("unknown entity `secret`"));
    assert!(error("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>").contains("DOCTYPE"));
}

#[test]
fn neither_depth_nor_long_names_are_a_danger() {
    let deep = |n: usize| format!("{}{}", "<a>".repeat(n), "</a>".repeat(n));
    assert!(read_by(&XmlReading::default(), &deep(100)).is_ok());
    assert_eq!(read_by(&XmlReading::default(), &deep(101)), Err(XmlError::Deep));
    assert_eq!(read_by(&XmlReading::default(), &deep(1_000_000)), Err(XmlError::Deep));
    let reading = XmlReading { namespaces: soap(), ..XmlReading::default() };
    let long = format!("<a xmlns=\"{}\">{}</a>", "u".repeat(10_000), "<b/>".repeat(5_000));
    assert_eq!(read_by(&reading, &long).map(drop), Err(XmlError::Growth));
}

#[test]
fn documents_say_in_which_encoding_they_are() {
    let read = |bytes: &[u8], charset: Option<&str>| {
        let mut out = Vec::new();
        XmlReading::default().read(bytes, charset, &mut out)?;
        Ok::<_, XmlError>(String::from_utf8(out).expect("UTF-8"))
    };
    let wanted = Ok("{\"a\":\"é\"}".to_owned());
    let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>";
    assert_eq!(read(latin, None), wanted);
    assert_eq!(read(b"<a>\xe9</a>", Some("iso-8859-1")), wanted);
    assert_eq!(read(b"\xef\xbb\xbf<a>\xc3\xa9</a>", Some("iso-8859-1")), wanted);
    let utf16: Vec<u8> = "\u{FEFF}<a>é</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&utf16, None), wanted);
    assert_eq!(read(b"<a>\xe9</a>", None), Err(XmlError::NotIn("UTF-8")));
    assert_eq!(read(b"<a/>", Some("klingon")), Err(XmlError::Encoding("klingon".to_owned())));
}

#[test]
fn xml_is_known_by_its_media_type() {
    for yes in ["application/xml", "text/XML; charset=utf-8", "application/soap+xml;action=x"] {
        assert!(is_xml(yes), "{yes}");
    }
    for no in ["application/json", "text/html", "+xml", "application/xml-dtd", ""] {
        assert!(!is_xml(no), "{no}");
    }
}

/// Documents and near-documents, made of fragments that fit together more often than random
/// letters.
fn nearly_xml() -> impl Strategy<Value = String> {
    let pieces = [
        "<a>",
        "</a>",
        "<b/>",
        "<a b='1'>",
        "<x:a xmlns:x='urn:orders'>",
        "</x:a>",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?p ?>",
        "&amp;",
        "&#0;",
        "&#x1F600;",
        "&e;",
        " ",
        "1",
        "é",
        "\"",
        "<",
        ">",
        "\0",
        "<!DOCTYPE a>",
        "xmlns='u'",
        "<a xmlns='urn:orders'>",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24).prop_map(|all| all.concat())
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    let name = prop_oneof!["[a-c]", "@[a-c]", "(o|soap|x|xml):[a-c]", "#text", any::<String>()];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|all| serde_json::Value::Object(all.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_read_is_json(text in nearly_xml(), typed in any::<bool>(), known in any::<bool>()) {
        let namespaces = if known { soap() } else { Vec::new() };
        let reading = XmlReading { namespaces, typed, ..XmlReading::default() };
        if let Ok(json) = read_by(&reading, &text) {
            let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            prop_assert_eq!(value.as_object().map(serde_json::Map::len), Some(1));
        }
    }

    #[test]
    fn no_bytes_are_a_danger(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = XmlReading::default().read(&bytes, None, &mut Vec::new());
    }

    #[test]
    fn whatever_is_written_is_well_formed(value in any_json()) {
        let document = xml(&value.to_string(), "soap:r", soap());
        let reading = XmlReading { namespaces: soap(), ..XmlReading::default() };
        prop_assert!(read_by(&reading, &document).is_ok(), "{}", document);
    }
}
