use super::*;

const SHOP: &str = "<?xml version=\"1.0\"?><shop xmlns:n='urn:n'><item id='1'><name>A</name>\
    <price>3</price></item><item id='2'><name>B<i>x</i></name><price>12</price></item>\
    <n:note lang='en'>hello world</n:note><!--c--><empty/></shop>";

fn texts(query: &str) -> Vec<String> {
    let query = XPath::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let texts = query.texts(SHOP, 100).expect("few nodes");
    texts.into_iter().map(|text| text.unwrap_or_else(|| "-".to_owned())).collect()
}

#[test]
fn nodes_and_values_are_found() {
    for (query, expected) in [
        ("/shop/item/@id", &["1", "2"][..]),
        ("//name", &["A", "B"]),
        ("//item[2]/name/text()", &["B"]),
        ("//item[@id='2']/price", &["12"]),
        ("//item[price > 5]/@id", &["2"]),
        ("//item[last()]/@id", &["2"]),
        ("//item[position() = 1]/name", &["A"]),
        ("//item", &["-", "-"]),
        ("//note", &["hello world"]),
        ("//n:note/@lang", &["en"]),
        ("count(//item)", &["2"]),
        ("string(//item[1]/name)", &["A"]),
        ("concat(//name[1], '-', 'x')", &["A-x"]),
        ("//item[contains(name, 'B') and not(@id = 1)]/@id", &["2"]),
        ("//price[. = 3] | //empty", &["3", "-"]),
        ("//price/../@id", &["1", "2"]),
        ("//name/following-sibling::price", &["3", "12"]),
        ("//price/ancestor::item[1]/@id", &["1", "2"]),
        ("//*[local-name() = 'note']", &["hello world"]),
        ("substring-after(//note, ' ')", &["world"]),
        ("substring('12345', 2, 3)", &["234"]),
        ("sum(//price) div 2", &["7.5"]),
        ("2 + 3 * 4 - 1", &["13"]),
        ("//item/@id = 2", &["true"]),
        ("translate('abc', 'ab', 'x')", &["xc"]),
        ("normalize-space('  a   b ')", &["a b"]),
        ("(//item)[2]/@id", &["2"]),
        ("/", &["-"]),
        ("//comment()", &["c"]),
        ("//none", &[]),
        ("-(1)", &["-1"]),
    ] {
        assert_eq!(texts(query), expected, "{query}");
    }
}

#[test]
fn options_change_documents_and_names() {
    let html = "<p>One<p class=b>Two</P>";
    let query = XPath::parse("//P[@class='b']").expect("XPath").tolerant(true);
    assert_eq!(query.texts(html, 100), Ok(vec![Some("Two".to_owned())]));
    assert_eq!(query.holds(html), Ok(Holds::Nodes(true)));
    let namespaced = "<a xmlns='urn:a'><b>x<c>y</c></b></a>";
    let plain = XPath::parse("//b").expect("XPath").version2("");
    assert_eq!(plain.texts(namespaced, 100), Ok(Vec::new()));
    let bound = XPath::parse("//p:b").expect("XPath").version2("p=urn:a");
    assert_eq!(bound.texts(namespaced, 100), Ok(vec![Some("xy".to_owned())]));
    assert!(XPath::parse("//b").expect("XPath").holds("no document").is_err());
}

#[test]
fn unsupported_expressions_are_errors_and_work_is_bounded() {
    for query in
        ["", "//", "//a[", "nope(1)", "//a[1", "'open", "a::b", "$x", "for $x in //a return $x"]
    {
        assert!(XPath::parse(query).is_err(), "{query}");
    }
    assert!(XPath::parse(&"(".repeat(10_000)).is_err());
    assert!(XPath::parse(&"-".repeat(10_000)).is_err());
    let wide = format!("<a>{}</a>", "<b/>".repeat(5_000));
    let slow = XPath::parse("//b[count(//b[count(//b) > 1]) > 1]").expect("XPath");
    assert!(slow.texts(&wide, 100).is_err());
}

#[test]
fn chains_of_operators_are_bounded() {
    assert_eq!(texts(&format!("1{}", " + 1".repeat(500))), ["501"]);
    for (first, next) in [("1", "+1"), ("a", "|a"), ("1", " or 1")] {
        assert!(XPath::parse(&format!("{first}{}", next.repeat(501))).is_err(), "{next}");
        assert!(XPath::parse(&format!("{first}{}", next.repeat(10_000))).is_err(), "{next}");
    }
}

#[test]
fn compared_pairs_and_texts_count_as_visits() {
    let wide = format!("<a>{}<c>1</c></a>", "<b>0</b>".repeat(5_000));
    let nested = format!("{}x{}", "<b>".repeat(900), "</b>".repeat(900));
    let long = format!("<a><c>{}</c>{}</a>", "x".repeat(1_000_000), "<b/>".repeat(5_000));
    for (query, text) in [
        ("//b = //b[. = 1] or //b != //b", &wide),
        ("//b > //b", &wide),
        ("count(//b[string(//b) = string(//b[string(.) = 'y'])])", &nested),
        ("//b[contains(/, 'y')]", &long),
        ("translate(/, /, '')", &long),
    ] {
        let query = XPath::parse(query).expect("XPath");
        let error = query.texts(text, 10).expect_err("too many");
        assert_eq!(error, "the expression visits too many nodes");
    }
    // The texts of nested elements are as many copies of the innermost one.
    let copies = format!("{}{}{}", "<b>".repeat(900), "x".repeat(100_000), "</b>".repeat(900));
    let all = XPath::parse("//b").expect("XPath").version2("");
    assert_eq!(all.texts(&copies, 1).map(|texts| texts.len()), Ok(1));
    assert_eq!(all.texts(&copies, 900), Err("the matches have more than 1 MiB".to_owned()));
}
