use super::*;
use crate::program::{Program, State, Values};
use weir_wire::Headers;

/// Applies an extractor of `v` to bodies, one after the other; returns all variables.
fn apply(rule: Rule, number: &str, default: &str, bodies: &[&str]) -> Vec<(String, String)> {
    apply_all(rule, number, default, bodies).expect("within the limits")
}

fn apply_all(
    rule: Rule,
    number: &str,
    default: &str,
    bodies: &[&str],
) -> Result<Vec<(String, String)>, String> {
    let program = Program { dynamic_names: true, ..Program::default() };
    let processor = PostProcessor {
        name: "v".to_owned(),
        source: Source::Field(Field::Body),
        rule,
        number: Text::fixed(number),
        default: Text::fixed(default),
        empty_default: false,
        derived: true,
    };
    let state = State::new(&program);
    let mut values = Values::new(&program, &state, 0, 0, 1);
    let mut scope = Scope { program: &program, state: &state, values: &mut values };
    for body in bodies {
        let headers = Headers::new();
        let reply = Response::of_body(&headers, body);
        processor.apply(&reply, &mut scope)?;
    }
    let mut all = scope.all_named();
    all.sort();
    Ok(all)
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn regex(pattern: &str, template: &str) -> Rule {
    let pattern = Expression::Fixed(Pattern::new(pattern).expect("a pattern"));
    Rule::Regex { pattern, template: Text::fixed(template) }
}

fn json(path: &str) -> Rule {
    Rule::Json { path: Expression::Fixed(JsonPath::parse(path).expect("a path")), all: true }
}

#[test]
fn a_regular_expression_sets_a_value_and_its_groups() {
    let rule = || regex(r"(\w)=(\d)?", "<$2$ of $1$>");
    let found = apply(rule(), "2", "none", &["a=1 b=2"]);
    let groups = [("v", "<2 of b>"), ("v_g", "2"), ("v_g0", "b=2"), ("v_g1", "b"), ("v_g2", "2")];
    assert_eq!(found, pairs(&groups));
    assert_eq!(apply(rule(), "1", "", &["a="]).first(), Some(&pairs(&[("v", "<null of a>")])[0]));
    assert_eq!(apply(rule(), "2", "none", &["a=1 b=2", "a=1"]), pairs(&[("v", "none")]));
    assert_eq!(apply(rule(), "3", "", &["a=1"]), pairs(&[]));
    assert_eq!(apply(regex("a", ""), "1", "", &["a"])[0], pairs(&[("v", "")])[0]);
}

#[test]
fn all_matches_are_numbered_and_those_before_go() {
    let found = apply(regex(r"\w=(\d)", "$1$"), "-1", "", &["a=1 b=2 c=3", "d=4"]);
    let expected =
        [("v_1", "4"), ("v_1_g", "1"), ("v_1_g0", "d=4"), ("v_1_g1", "4"), ("v_matchNr", "1")];
    assert_eq!(found, pairs(&expected));
}

#[test]
fn boundaries_enclose_texts() {
    let rule = |left: &str, right: &str| Rule::Boundary {
        left: Text::fixed(left),
        right: Text::fixed(right),
    };
    let all = apply(rule("[", "]"), "-1", "", &["[a][b] [c"]);
    assert_eq!(all, pairs(&[("v_1", "a"), ("v_2", "b"), ("v_matchNr", "2")]));
    assert_eq!(apply(rule("b=", ""), "1", "", &["a=1;b=2"]), pairs(&[("v", "2")]));
    assert_eq!(apply(rule("", ";"), "1", "", &["a=1;b=2"]), pairs(&[("v", "a=1")]));
    assert_eq!(apply(rule("x", "y"), "1", "d", &["a"]), pairs(&[("v", "d")]));
}

#[test]
fn json_sets_one_or_all_values() {
    let list = r#"{"a":["x","y"],"n":null,"one":[1]}"#;
    assert_eq!(apply(json("$.a[*]"), "2", "d", &[list]), pairs(&[("v", "y"), ("v_matchNr", "2")]));
    let all = apply(json("$.a[*]"), "-1", "d", &[list]);
    let expected = [("v_1", "x"), ("v_2", "y"), ("v_ALL", "x,y"), ("v_matchNr", "2")];
    assert_eq!(all, pairs(&expected));
    assert_eq!(apply(json("$.n"), "1", "d", &[list])[0], pairs(&[("v", "d")])[0]);
    assert_eq!(apply(json("$.a.length()"), "1", "d", &[list]), pairs(&[("v", "d")]));
    assert_eq!(apply(json("$.one[*]"), "5", "d", &[list])[0], pairs(&[("v", "1")])[0]);
    assert_eq!(apply(json("$.z"), "1", "d", &[list]), pairs(&[("v", "d"), ("v_matchNr", "0")]));
    assert_eq!(apply(json("$.z"), "1", "d", &["no JSON"]), pairs(&[("v", "d")]));
    let query = JmesPath::parse("a[?@ == 'y'] | [0]").expect("JMESPath");
    let found = apply(Rule::JmesPath(Expression::Fixed(query)), "1", "d", &[list]);
    assert_eq!(found, pairs(&[("v", "y"), ("v_matchNr", "1")]));
}

#[test]
fn nodes_have_texts() {
    let query = XPath::parse("//b").expect("XPath");
    let found = apply(Rule::XPath(query), "-1", "d", &["<a><b>1</b><b>2</b></a>"]);
    assert_eq!(found, pairs(&[("v", "1"), ("v_1", "1"), ("v_2", "2"), ("v_matchNr", "2")]));
    let css = Css::parse("b", "").expect("a selector");
    assert_eq!(apply(Rule::Css(css), "2", "d", &["<b>1</b><b>2</b>"]), pairs(&[("v", "2")]));
}

#[test]
fn matches_that_are_too_large_together_are_errors() {
    let boundary = Rule::Boundary { left: Text::fixed("["), right: Text::fixed("]") };
    let css = |selector: &str| Rule::Css(Css::parse(selector, "").expect("a selector"));
    let path = Expression::Fixed(JsonPath::parse("$..*").expect("a path"));
    let open = format!("{}{}]", "[".repeat(9_000), "x".repeat(9_000));
    let page = format!("{}{}", "<div>".repeat(900), "x".repeat(100_000));
    let nested = format!("{}\"{}\"{}", "[".repeat(100), "x".repeat(100_000), "]".repeat(100));
    let groups = format!("{}x*{}", "(".repeat(100), ")".repeat(100));
    for (rule, body) in [
        (boundary, &open),
        (css("div"), &page),
        (Rule::Json { path, all: false }, &nested),
        (regex(&groups, ""), &"x".repeat(100_000)),
        (regex("x+", &"$0$".repeat(100)), &"x".repeat(100_000)),
    ] {
        let result = apply_all(rule.clone(), "-1", "", &[body]);
        assert_eq!(result, Err("the matches have more than 1 MiB".to_owned()), "{rule:?}");
        // Up to the chosen match only.
        if matches!(rule, Rule::Boundary { .. } | Rule::Css(_)) {
            assert!(apply_all(rule, "2", "", &[body]).is_ok());
        }
    }
}
