//! Functions, extractors and assertions, compared with JMeter.

use super::compare_files;
use super::elements::{el, get_with, group, list, plan, plan_with, post};

#[test]
fn every_function() {
    let expressions = [
        r"${__V(b${n})}",
        r"${__V(none,d)}",
        r"${__eval(${ref})}",
        r"${__evalVar(ref)}",
        r"${__split(a|b||c,p,|)} ${p_1} ${p_3} ${p_n} ${p_5}",
        r"${__split(a\,b,q)} ${q_2}",
        r"${__digest(MD5,Errare humanum est,,,)}",
        r"${__digest(SHA-256,Errare,salt,true,dig)} ${dig}",
        r"${__digest(SHA-1,a,,,)}${__digest(SHA-512,a,,,)}${__digest(SHA-384,a,,,)}",
        r#"${__escapeHtml(<a href="x">é € 'q' & α</a>)}"#,
        r"${__unescapeHtml(&lt;&eacute;&#65;&#x42;&nope;&apos;&nbsp;)}",
        r#"${__escapeXml(<a b='x' c="y">&</a>)}"#,
        r"${__escapeOroRegexpChars([^a.b]+ä_\,,e)} ${e}",
        r"${__urlencode(a b&c=d/ä*~)}",
        r"${__urldecode(a+b%26%C3%A4)}",
        r"${__unescape(a\\tb\\u0041\\x)}",
        r"${__char(65,0x42,0103)}",
        r"${__changeCase(aB cD,UPPER,)}${__changeCase(aB cD,LOWER,)}${__changeCase(aB cD,CAPITALIZE,cc)}${cc}",
        r"${__intSum(1,${n},-5,sum)} ${sum}",
        r"${__intSum(2147483647,1)}",
        r"${__longSum(4000000000,2,ls)} ${ls}",
        r"${__isVarDefined(b1)} ${__isVarDefined(none)} ${__isPropDefined(port)} ${__isPropDefined(none)}",
        r"${__RandomFromMultipleVars(b1|b1,rnd)} ${rnd}",
        r"${__regexFunction((\w)-(\w),<$2$$1$>,1,,none,rf,text)} ${rf} ${rf_g1} ${rf_matchNr}",
        r"${__regexFunction(\w,$0$,ALL,+,none,,text)}",
        r"${__regexFunction(z,$0$,1,,none,rg,text)} ${rg}",
        r"${__threadGroupName} ${__samplerName()} ${__threadNum}",
        r"${__TestPlanName}",
        r"${__log(logged)}|${__logn(not)}|",
        r"${__timeShift(yyyy-MM-dd'T'HH:mm:ss,2024-02-28T23:00:00,P1DT2H,,ts)} ${ts}",
        r"${__timeShift(yyyy-MM-dd,2024-01-31,-P1D,)}",
        r"${__timeShift(dd/MM/yyyy,01/02/2024,,)}",
        r"${__timeShift(,1500000000000,PT1S,)}",
        r"${__timeShift(EEE d MMM yyyy HH:mm,Sat 3 Feb 2024 14:05,PT30S,en_EN,)}",
        r"${__timeShift(yyyy-MM-dd'T'HH:mm:ss.SSSXXX,2024-02-03T14:05:06.000+01:00,PT1H,)}",
        r"${__dateTimeConvert(Sat 3 Feb 2024 02:05 PM,EEE d MMM yyyy hh:mm a,yyyy-MM-dd HH:mm,)}",
        r"${__eval(${__unescape(\u0024\u007bb1\u007d)} z)}",
        r"${__dateTimeConvert(01212018,MMddyyyy,dd/MM/yyyy,dc)} ${dc}",
        r"${__dateTimeConvert(1526574881000,,dd/MM/yyyy HH:mm,)}",
        r"${__dateTimeConvert(2018-01-21,yyyy-MM-dd,HH:mm,)}|",
        r"${__RandomDate(,2024-01-01,2024-01-02,,)}",
        r"${__RandomDate(dd.MM.yyyy,01.01.2024,02.01.2024,,rd)} ${rd}",
        r"${__javaScript(1+2)} ${__javaScript('${n}' == '1' ? 'yes' : 'no',js)} ${js}",
        r"${__javaScript(Math.floor(7/2))} ${__javaScript(0.1+0.2)} ${__javaScript([1\,2].join('-'))}",
        r"${__javaScript('a b'.replace(/ /g\,'_').toUpperCase())}",
        r"${__jexl3(1+1)} ${__jexl3(7/2)} ${__jexl3(7.0/2)} ${__jexl3(6.0/2)} ${__jexl3(7%4)}",
        r#"${__jexl3("${n}"=="1" && 2>1)} ${__jexl3(${n} eq 1 or false)} ${__jexl3(not true)}"#,
        r#"${__jexl3("1"+"2")} ${__jexl3("a"+1)} ${__jexl3(1+"2")}"#,
        r#"${__jexl3("10">"9")} ${__jexl3("10">9)} ${__jexl3("a"<"b")}"#,
        r#"${__jexl3("abc"=~"a.c")} ${__jexl3("abc"=~"b")} ${__jexl3("abc"=^"ab")}"#,
        r#"${__jexl3(empty(""))} ${__jexl3(empty "x")} ${__jexl3(size("abc"))}"#,
        r#"${__jexl3("Hello".contains("ell"))} ${__jexl3("a".equals("b"))} ${__jexl3("abc".length())}"#,
        r#"${__jexl3(vars.get("b1")=="one" ? "x" : "y",jx)} ${jx}"#,
        r"|${__jexl3(undefined == 1)}|${__jexl3(null)}|",
        r#"${__jexl2(1+1)} ${__jexl2(7/2)} ${__jexl2("1"+"2")} ${__jexl2("${n}"=="1")}"#,
        r#"${__jexl2("a" eq "a" and 3 ge 3)} ${__jexl2(size("abc"))} ${__jexl2(empty(""))}"#,
        r"${ n } ${none} ${a${n}} x",
        r"\${n} \\ \, ${n}",
        r"\${n} \\ \, no",
        r"${__time(yyyy)} ${__time(/86400000)}",
        r"${__P(none)} ${__P(none,d)} ${__property(none)} ${__property(none,,e)}",
        r"${__StringFromFile(lines.txt)} ${StringFromFile_}",
        r"${__CSVRead(read.csv,0)}-${__CSVRead(read.csv,1)}${__CSVRead(read.csv,next)}-${__CSVRead(read.csv,0)}",
        r"${__FileToString(latin.txt,ISO-8859-1,fs)} ${fs}",
        r"${__machineName} ${__machineIP}",
    ];
    let samplers: String = expressions
        .iter()
        .enumerate()
        .map(|(at, expression)| post(&format!("f{at}"), expression, ""))
        .collect();
    let variables = [("n", "1"), ("b1", "one"), ("text", "a-b c-d"), ("ref", "x \\${b1} y")];
    let files: [(&str, &[u8]); 3] = [
        ("lines.txt", b"first\nsecond\n"),
        ("read.csv", b"a,b\nc,d\n\n"),
        ("latin.txt", b"caf\xe9"),
    ];
    compare_files(
        "functions",
        &plan_with(&variables, &group("G", "1", "2", &[], &samplers)),
        &files,
    );
}

/// An extractor with usual properties, by the prefix of their names.
fn extractor(class: &str, prefix: &str, properties: &[(&str, &str)]) -> String {
    let names: Vec<(String, &str)> = properties
        .iter()
        .map(|(name, value)| match name.contains('.') {
            true => ((*name).to_owned(), *value),
            false => (format!("{prefix}.{name}"), *value),
        })
        .collect();
    let properties: Vec<(&str, &str)> =
        names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    el(class, class, &properties, "")
}

fn regex(name: &str, pattern: &str, template: &str, number: &str, default: &str) -> String {
    regex_in("false", name, pattern, template, number, default)
}

fn regex_in(
    field: &str,
    name: &str,
    pattern: &str,
    template: &str,
    number: &str,
    default: &str,
) -> String {
    extractor(
        "RegexExtractor",
        "RegexExtractor",
        &[
            ("useHeaders", field),
            ("refname", name),
            ("regex", pattern),
            ("template", template),
            ("default", default),
            ("match_number", number),
        ],
    )
}

fn json(names: &str, paths: &str, numbers: &str, defaults: &str) -> String {
    extractor(
        "JSONPostProcessor",
        "JSONPostProcessor",
        &[
            ("referenceNames", names),
            ("jsonPathExprs", paths),
            ("match_numbers", numbers),
            ("defaultValues", defaults),
            ("compute_concat", "true"),
        ],
    )
}

/// The values of variables in a body.
fn shown(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name}=${{{name}}};")).collect()
}

#[test]
fn every_extractor() {
    let mut inside = String::new();
    let mut add = |path: &str, names: &[&str], extractors: &[String]| {
        let number = inside.matches("<HTTPSamplerProxy ").count();
        inside.push_str(&get_with(&format!("get {number}"), path, &extractors.concat()));
        inside.push_str(&post(&format!("show {number}"), &shown(names), ""));
    };
    add(
        "/text",
        &[
            "a",
            "a_g",
            "a_g0",
            "a_g1",
            "a_g2",
            "a_matchNr",
            "b",
            "c",
            "d_1",
            "d_2",
            "d_3",
            "d_matchNr",
            "d_2_g",
            "d_2_g1",
            "e",
            "f",
            "g",
            "h",
            "i",
            "j",
            "k",
            "l",
        ],
        &[
            regex("a", "(\\w+) (\\w+)", "$2$-$1$", "1", "none"),
            regex("b", "nothing", "$0$", "1", "none"),
            regex("c", "nothing", "$0$", "1", ""),
            regex("d", "(\\w)o", "$1$", "-1", "none"),
            regex("e", "o(?= )", "$0$!", "1", "none"),
            regex("f", "(l)\\1", "$0$", "1", "none"),
            regex("g", "^hello|$", "$0$", "1", "none"),
            regex("h", "hello(x)?", "$1$", "1", "none"),
            regex("i", "w(or)", "", "1", "none"),
            regex("j", "(?s)h.*W", "$0$", "1", "none"),
            regex("k", "d$", "$0$", "1", "none"),
            regex("l", "(?i)WORLD", "$0$", "2", "none"),
        ],
    );
    add(
        "/redirect",
        &["u", "c", "m", "h", "r", "s"],
        &[
            regex_in("URL", "u", "/(\\w+)/", "$1$", "1", "none"),
            regex_in("code", "c", "\\d", "$0$", "2", "none"),
            regex_in("message", "m", ".*", "$0$", "1", "none"),
            regex_in("true", "h", "Content-Type: (.*)", "[$1$]", "1", "none"),
            regex_in("request_headers", "r", "User-Agent: (.*)", "[$1$]", "1", "none"),
            regex_in("true", "s", "HTTP/1.1 (.*)\\n", "[$1$]", "1", "none"),
        ],
    );
    add(
        "/store",
        &[
            "a",
            "b",
            "c",
            "c_1",
            "c_2",
            "c_3",
            "c_ALL",
            "c_matchNr",
            "d",
            "e",
            "f",
            "g",
            "h",
            "i",
            "j",
            "k",
            "l",
            "m",
            "n",
            "o",
            "o_matchNr",
            "p",
            "q",
            "r",
            "s",
            "s_1",
            "t",
            "t_1",
            "t_2",
        ],
        &[
            json("a;b", "$.x-y;$['a b']", "1;1", "da;db"),
            json("c", "$.book[*].id", "-1", "dc"),
            json("d", "$.none", "1", "dd"),
            json("e", "$.n", "1", "de"),
            json("f", "$.list.length()", "1", "df"),
            json("g", "$.book[?(@.title =~ /.*a/i)].title", "2", "dg"),
            json("h", "$.book[?(@.id in [2,3])].title", "1", "dh"),
            json("i", "$..price", "2", "di"),
            json("j", "$.o", "1", "dj"),
            json("k", "$.f", "1", "dk"),
            json("l", "$.list[-1:]", "1", "dl"),
            json("m", "$.list", "1", "dm"),
            json("n", "x-y", "", "dn"),
            json("o", "$.one[*]", "7", "do"),
            json("p", "$.big", "1", "dp"),
            json("q", "$.book[?(@.price < 10 && @.tags)].tags[0]", "1", "dq"),
            json("r", "$['x-y','f']", "1", "dr"),
            json("s", "$..none", "-1", "ds"),
            json("t", "$.o.q[*]", "-1", "dt"),
        ],
    );
    let jmes = |name: &str, query: &str, number: &str| {
        extractor(
            "JMESPathExtractor",
            "JMESExtractor",
            &[
                ("referenceName", name),
                ("jmesPathExpr", query),
                ("matchNumber", number),
                ("defaultValue", "d"),
            ],
        )
    };
    add(
        "/store",
        &["a", "b_1", "b_2", "b_matchNr", "c", "d", "e"],
        &[
            jmes("a", "book[1].title", "1"),
            jmes("b", "book[*].title", "-1"),
            jmes("c", "none", "1"),
            jmes("d", "length(list)", "1"),
            jmes("e", "o", "1"),
        ],
    );
    let boundary = |name: &str, left: &str, right: &str, number: &str| {
        extractor(
            "BoundaryExtractor",
            "BoundaryExtractor",
            &[
                ("refname", name),
                ("lboundary", left),
                ("rboundary", right),
                ("match_number", number),
                ("default", "d"),
                ("useHeaders", "false"),
            ],
        )
    };
    let css = |name: &str, selector: &str, attribute: &str, number: &str| {
        extractor(
            "HtmlExtractor",
            "HtmlExtractor",
            &[
                ("refname", name),
                ("expr", selector),
                ("attribute", attribute),
                ("match_number", number),
                ("default", "d"),
                ("extractor_impl", ""),
            ],
        )
    };
    let xpath = |name: &str, query: &str, number: &str, tolerant: &str| {
        extractor(
            "XPathExtractor",
            "XPathExtractor",
            &[
                ("refname", name),
                ("xpathQuery", query),
                ("matchNumber", number),
                ("default", "d"),
                ("tolerant", tolerant),
                ("namespace", "false"),
                ("quiet", "true"),
            ],
        )
    };
    add(
        "/page",
        &[
            "a",
            "b_1",
            "b_2",
            "b_matchNr",
            "c",
            "d",
            "e",
            "f_1",
            "f_2",
            "f_matchNr",
            "g",
            "h",
            "i",
            "j",
            "k",
        ],
        &[
            boundary("a", "value='", "'", "1"),
            boundary("b", "<p", "</p>", "-1"),
            boundary("c", "nothing", "here", "1"),
            css("d", "input[name=token]", "value", "1"),
            css("e", "div.main p", "", "2"),
            css("f", "p", "", "-1"),
            css("g", "p", "", "9"),
            css("h", "div.main", "", "1"),
            xpath("i", "//input[@name='token']/@value", "1", "true"),
            xpath("j", "//p[2]", "1", "true"),
            xpath("k", "count(//p)", "1", "true"),
        ],
    );
    let xpath2 = |name: &str, query: &str, number: &str| {
        extractor(
            "XPath2Extractor",
            "XPathExtractor2",
            &[
                ("refname", name),
                ("xpathQuery", query),
                ("matchNumber", number),
                ("default", "d"),
                ("fragment", "false"),
                ("namespaces", ""),
            ],
        )
    };
    add(
        "/xml",
        &[
            "a",
            "a_1",
            "a_2",
            "a_matchNr",
            "b",
            "c",
            "d",
            "e",
            "f",
            "f_1",
            "f_2",
            "f_matchNr",
            "g",
            "h",
        ],
        &[
            xpath("a", "//item/name", "-1", "false"),
            xpath("b", "//item[2]/@id", "1", "false"),
            xpath("c", "//none", "1", "false"),
            xpath("d", "string(//item[1]/name)", "1", "false"),
            xpath("e", "//item", "1", "false"),
            xpath2("f", "//item/name", "-1"),
            xpath2("g", "//item[price > 5]/@id", "1"),
            xpath2("h", "count(//item)", "1"),
        ],
    );
    compare_files("extractors", &plan(&group("G", "1", "2", &[], &inside)), &[]);
}

fn response(field: &str, kind: u32, patterns: &[&str], more: &[(&str, &str)]) -> String {
    let kind = kind.to_string();
    let usual = [("Assertion.test_field", field), ("Assertion.test_type", kind.as_str())];
    let properties: Vec<(&str, &str)> = usual.into_iter().chain(more.iter().copied()).collect();
    let patterns = list("Asserion.test_strings", patterns);
    let all: Vec<(&str, &str)> = [("raw:", &*patterns)].into_iter().chain(properties).collect();
    el("ResponseAssertion", "response", &all, "")
}

#[test]
fn every_assertion_with_its_message() {
    let body = "Assertion.response_data";
    let json = |path: &str, properties: &[(&str, &str)]| {
        let usual = [("JSON_PATH", path)];
        let all: Vec<(&str, &str)> = usual.into_iter().chain(properties.iter().copied()).collect();
        el("JSONPathAssertion", "json", &all, "")
    };
    let expects = |value: &'static str, regex: &'static str| {
        [("JSONVALIDATION", "true"), ("EXPECTED_VALUE", value), ("ISREGEX", regex)]
    };
    let size = |field: &str, operator: &str, bytes: &str| {
        el(
            "SizeAssertion",
            "size",
            &[
                ("Assertion.test_field", field),
                ("SizeAssertion.operator", operator),
                ("SizeAssertion.size", bytes),
            ],
            "",
        )
    };
    let xpath = |query: &str, negate: &str| {
        el("XPathAssertion", "xpath", &[("XPath.xpath", query), ("XPath.negate", negate)], "")
    };
    let cases: Vec<(&str, String)> = vec![
        ("/text", response(body, 2, &["wor.d", "nothing"], &[])),
        ("/text", response(body, 34, &["no1", "no2"], &[])),
        ("/text", response(body, 34, &["no1", "hello"], &[])),
        ("/text", response(body, 6, &["hello"], &[])),
        ("/text", response(body, 1, &["hello world"], &[])),
        ("/text", response(body, 1, &["(?s)hello.*"], &[])),
        ("/text", response(body, 8, &["hello there\nWorld"], &[])),
        ("/text", response(body, 12, &["hello world\nWorld"], &[])),
        ("/text", response(body, 16, &["no{"], &[])),
        ("/text", response(body, 20, &["hello"], &[])),
        ("/text", response(body, 2, &["no"], &[("Assertion.custom_message", "custom ${v}")])),
        ("/text", response("Assertion.response_code", 8, &["201"], &[])),
        ("/text", response("Assertion.response_message", 16, &["NOT"], &[])),
        ("/text", response("Assertion.response_headers", 2, &["Type: text/plain\nContent"], &[])),
        ("/text", response("Assertion.response_headers", 2, &["no"], &[])),
        ("/text", response("Assertion.request_headers", 16, &["no"], &[])),
        ("/text", response("Assertion.sample_label", 2, &["/text$"], &[])),
        ("/text", response("Assertion.request_data", 8, &["x"], &[])),
        (
            "/status/404",
            response(
                "Assertion.response_code",
                8,
                &["404"],
                &[("Assertion.assume_success", "true")],
            ),
        ),
        ("/status/404", response("Assertion.response_code", 8, &["200"], &[])),
        ("/status/204", response(body, 2, &["x"], &[])),
        ("/status/204", response(body, 6, &["x"], &[])),
        (
            "/text",
            response(
                body,
                2,
                &["val"],
                &[("Assertion.scope", "variable"), ("Scope.variable", "v")],
            ),
        ),
        (
            "/text",
            response(body, 2, &["no"], &[("Assertion.scope", "variable"), ("Scope.variable", "v")]),
        ),
        ("/text", size("SizeAssertion.response_data", "1", "3")),
        ("/text", size("SizeAssertion.response_data", "3", "30")),
        ("/text", size("SizeAssertion.response_code", "5", "4")),
        ("/text", size("SizeAssertion.response_headers", "6", "3")),
        ("/store", json("$.x-y", &expects("2", "true"))),
        ("/store", json("$.x-y", &expects("2", "false"))),
        ("/store", json("$.x-y", &expects("1", "false"))),
        ("/store", json("$.book[*].id", &expects("3", "false"))),
        ("/store", json("$.book[*].title", &expects("Z", "true"))),
        ("/store", json("$.none", &[])),
        ("/store", json("$.x-y", &[("INVERT", "true")])),
        ("/store", json("$.n", &[("JSONVALIDATION", "true"), ("EXPECT_NULL", "true")])),
        ("/store", json("$.x-y", &[("JSONVALIDATION", "true"), ("EXPECT_NULL", "true")])),
        ("/store", json("$..none", &[])),
        ("/store", json("$.f", &expects("1.5", "true"))),
        ("/store", json("$.list", &expects("[1,2,3,4]", "false"))),
        ("/xml", el("XMLAssertion", "xml", &[], "")),
        ("/xml", xpath("//item[@id='1']", "false")),
        ("/xml", xpath("//none", "false")),
        ("/xml", xpath("//item", "true")),
        ("/xml", xpath("count(//item)=2", "false")),
        ("/xml", xpath("count(//item)=3", "false")),
        ("/xml", el("MD5HexAssertion", "md5", &[("MD5HexAssertion.size", "0123")], "")),
    ];
    let samplers: String = cases
        .iter()
        .enumerate()
        .map(|(at, (path, assertion))| get_with(&format!("a{at}"), path, assertion))
        .collect();
    // Nothing in common but that they fail.
    let broken = get_with("not XML", "/text", &el("XMLAssertion", "xml", &[], ""));
    let variables = [("v", "value")];
    compare_files(
        "messages",
        &plan_with(&variables, &group("G", "1", "1", &[], &(samplers + &broken))),
        &[],
    );
}
