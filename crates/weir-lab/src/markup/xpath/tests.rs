use super::*;

const SHOP: &str = "<?xml version=\"1.0\"?><shop xmlns:n='urn:n'><item id='1'><name>A</name>\
    <price>3</price></item><item id='2'><name>B<i>x</i></name><price>12</price></item>\
    <n:note lang='en'>hello world</n:note><!--c--><empty/></shop>";

fn texts(query: &str) -> Vec<String> {
    let query = XPath::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let texts = query.texts(SHOP).expect("few nodes");
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
    assert_eq!(query.texts(html), Ok(vec![Some("Two".to_owned())]));
    assert_eq!(query.holds(html), Ok(Holds::Nodes(true)));
    let namespaced = "<a xmlns='urn:a'><b>x<c>y</c></b></a>";
    let plain = XPath::parse("//b").expect("XPath").version2("");
    assert_eq!(plain.texts(namespaced), Ok(Vec::new()));
    let bound = XPath::parse("//p:b").expect("XPath").version2("p=urn:a");
    assert_eq!(bound.texts(namespaced), Ok(vec![Some("xy".to_owned())]));
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
    assert!(slow.texts(&wide).is_err());
}
