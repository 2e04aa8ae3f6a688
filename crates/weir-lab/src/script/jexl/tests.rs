use super::super::tests::Maps;
use super::*;

fn three(source: &str) -> Result<String, String> {
    let mut maps = Maps::default();
    maps.set_variable("n", Some("7".to_owned()));
    evaluate(source, Dialect::Three, &mut maps)
}

#[test]
fn conditions_of_plans_are_evaluated() {
    for (source, expected) in [
        ("1 == 1", "true"),
        ("\"1\" == 1", "true"),
        ("'a' == \"a\" && 3 >= 2", "true"),
        ("\"a\" eq 'b' or not false", "true"),
        ("\"${x}\" != \"\"", "true"),
        ("10 > 9", "true"),
        ("\"10\" > \"9\"", "false"),
        ("'abc' =~ 'a.c'", "true"),
        ("'abc' =~ 'b'", "false"),
        ("'abc' =^ 'ab' and 'abc' =$ 'bc'", "true"),
        ("empty('') || size('abc') == 3", "true"),
        ("empty nothing", "true"),
        ("vars.get('n') == 7 ? 'yes' : 'no'", "yes"),
        ("vars.get(\"none\") == null", "true"),
        ("vars.get('none') ?: 'other'", "other"),
        ("'Hello'.contains('ell') && 'a'.equals('a')", "true"),
        ("'Hello'.toLowerCase().length() + 1", "6"),
        ("'abcdef'.substring(1, 3)", "bc"),
        ("7 / 2 * 2 + 7 % 4", "9"),
        ("7.0 / 2", "3.5"),
        ("1 + 2 * 3", "7"),
        ("-(2 + 3)", "-5"),
        ("threadName", "Users 1-2"),
        ("null", ""),
        ("(1 lt 2) and (2 le 2) and (3 gt 2) and (3 ge 3) and (1 ne 2)", "true"),
    ] {
        assert_eq!(three(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn unsupported_expressions_and_wrong_values_are_errors() {
    for source in [
        "new('java.util.Date')",
        "x = 1; x",
        "for (i : 1) {}",
        "ctx.getThreadNum()",
        "'a'.getBytes()",
        "vars['a']",
        "1 +",
        "'open",
        "(1",
        "1 2",
        "#",
    ] {
        assert!(check(source).is_err(), "{source}");
    }
    for source in ["name == 'a'", "'a' == 1", "1 / 0", "'a'.substring(5)", "null + 1"] {
        assert!(check(source).is_ok() && three(source).is_err(), "{source}");
    }
    let deep = "(".repeat(10_000);
    assert!(check(&deep).is_err() && check(&"!".repeat(10_000)).is_err());
}

#[test]
fn operators_of_null_evaluate_their_first_value_once() {
    assert_eq!(three("vars.get('none') ?? 'other'").as_deref(), Ok("other"));
    assert_eq!(three("false ?? 'other'").as_deref(), Ok("false"));
    // Not twice as much work for each.
    let nested = format!("{}1{}", "(".repeat(40), " ?? 2)".repeat(40));
    assert_eq!(three(&nested).as_deref(), Ok("1"));
}

#[test]
fn chains_of_operators_are_bounded() {
    let sum = |count: usize| format!("1{}", "+1".repeat(count));
    assert_eq!(three(&sum(200)).as_deref(), Ok("201"));
    for chain in [
        sum(201),
        sum(30_000),
        format!("''{}", ".trim()".repeat(8_000)),
        format!("{}''", "empty ".repeat(10_000)),
        format!("{}''", "size ".repeat(10_000)),
        format!("{}1", "- ".repeat(10_000)),
    ] {
        assert!(check(&chain).is_err());
    }
}

#[test]
fn texts_are_bounded() {
    let twice =
        |times: usize| format!("'{}'{}", "x".repeat(1_000), ".replace('x', 'xx')".repeat(times));
    assert_eq!(three(&format!("{}.length()", twice(10))).as_deref(), Ok("1024000"));
    assert!(three(&twice(30)).is_err());
    let groups = ".replaceAll('x+', '$0$0')".repeat(30);
    assert!(three(&format!("'x'{groups}")).is_err());
    assert!(three(&format!("{0} + {0} + {0}", twice(13))).is_err());
}
