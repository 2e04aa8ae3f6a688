use super::*;
use crate::program::{Program, State, Values};

fn call(name: &str, arguments: &[&str]) -> String {
    let program = Program { dynamic_names: true, ..Program::default() };
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut scope = Scope { program: &program, state: &state, values: &mut values };
    for (name, value) in [("v", "value"), ("ref", "${v}-${none}"), ("l_matchNr", "1"), ("l_1", "x")]
    {
        scope.set_named(name, Some(value.to_owned()));
    }
    let arguments = arguments.iter().map(|text| Text::fixed(*text)).collect();
    let function = name.parse().unwrap_or_else(|_| panic!("{name}"));
    let result = scope.jmeter(&Call { function, arguments });
    let mut stored: Vec<String> = ["o", "o_1", "o_2", "o_n", "o_matchNr", "o_g1"]
        .into_iter()
        .filter_map(|name| Some(format!(" {name}={}", scope.named(name)?)))
        .collect();
    stored.insert(0, result);
    stored.concat()
}

#[test]
fn functions_give_what_jmeter_gives() {
    for (name, arguments, expected) in [
        ("__base64Encode", &["a:b€"][..], "YTpi4oKs"),
        ("__base64Decode", &["YTpi"], "a:b"),
        ("__split", &["a|b", "o", "|"], "a|b o=a|b o_1=a o_2=b o_n=2"),
        ("__eval", &["x ${v} ${none}"], "x value ${none}"),
        ("__evalVar", &["ref"], "value-${none}"),
        ("__V", &["v"], "value"),
        ("__V", &["none"], "none"),
        ("__V", &["none", "d"], "d"),
        ("__digest", &["MD5", "Errare humanum est"], "c49f00b92667a35c63708933384dad52"),
        ("__MD5", &["a"], "0cc175b9c0f1b6a831c399e269772661"),
        ("__escapeHtml", &["<é>"], "&lt;&eacute;&gt;"),
        ("__unescapeHtml", &["&lt;&eacute;&gt;"], "<é>"),
        ("__escapeXml", &["<'>"], "&lt;&apos;&gt;"),
        ("__escapeOroRegexpChars", &["a.b[1]"], r"a\.b\[1\]"),
        ("__urlencode", &["a b&ä"], "a+b%26%C3%A4"),
        ("__urldecode", &["a+b%26%C3%A4"], "a b&ä"),
        ("__unescape", &[r"a\tb\u0041"], "a\tbA"),
        ("__char", &["65", "0x42", "0103"], "ABC"),
        ("__changeCase", &["aBc"], "ABC"),
        ("__changeCase", &["aBc", "CAPITALIZE"], "ABc"),
        ("__changeCase", &["aBc", "LOWER"], "abc"),
        ("__intSum", &["1", "2", "o"], "3 o=3"),
        ("__intSum", &["1", "-2", "5"], "4"),
        ("__longSum", &["4000000000", "2", "o"], "4000000002 o=4000000002"),
        ("__doubleSum", &["1.5", "2"], "3.5"),
        ("__isDefined", &["v"], "1"),
        ("__isVarDefined", &["none"], "false"),
        ("__isPropDefined", &["none"], "false"),
        ("__RandomFromMultipleVars", &["l"], "x"),
        ("__chooseRandom", &["a", "a", "o"], "a o=a"),
        (
            "__regexFunction",
            &["(a)l", "<$1$>", "1", "", "d", "o", "v"],
            "<a> o=<a> o_matchNr=1 o_g1=a",
        ),
        ("__regexFunction", &["(u|e)", "$1$", "ALL", ",", "", "", "v"], "u,e"),
        ("__regexFunction", &["x", "$1$", "1", "", "d", "o", "v"], "d o=d o_matchNr=0"),
        ("__log", &["x"], "x"),
        ("__logn", &["x"], ""),
        ("__substring", &["hello", "1", "3"], "el"),
        ("__strLen", &["hello"], "5"),
        ("__strReplace", &["aba", "a", "x"], "xbx"),
        ("__if", &["a", "a", "yes", "no"], "yes"),
        ("__uppercase", &["a"], "A"),
        ("__javaScript", &["1 + 1"], "2"),
        ("__javaScript", &["vars.get('v').toUpperCase()"], "VALUE"),
        ("__javaScript", &["vars.put('o', 'x'); ''"], " o=x"),
        ("__javaScript", &["("], ""),
        ("__jexl3", &["vars.get('v') == 'value' && 2 > 1"], "true"),
        ("__jexl2", &["nothing == 1"], ""),
        ("__timeShift", &["yyyy-MM-dd", "2024-02-28", "P2D", "o"], "2024-03-01 o=2024-03-01"),
        ("__timeShift", &["", "1000", "PT1S", "", ""], "2000"),
        ("__dateTimeConvert", &["01212018", "MMddyyyy", "dd/MM/yyyy"], "21/01/2018"),
        ("__dateTimeConvert", &["2018-01-21", "yyyy-MM-dd", "HH"], ""),
        ("__RandomDate", &["", "2024-01-01", "2024-01-02", "", ""], "2024-01-01"),
    ] {
        assert_eq!(call(name, arguments), expected, "{name} {arguments:?}");
    }
}

#[test]
fn wrong_arguments_give_nothing() {
    for (name, arguments) in [
        ("__base64Decode", &["%"][..]),
        ("__digest", &["none", "x"]),
        ("__intSum", &["x", "y"]),
        ("__substring", &["a", "5", "6"]),
        ("__RandomDate", &["", "2024-01-02", "2024-01-01"]),
        ("__regexFunction", &["(", "$1$", "1", "", "d", "", "v"]),
    ] {
        assert_eq!(call(name, arguments), "", "{name}");
    }
}
