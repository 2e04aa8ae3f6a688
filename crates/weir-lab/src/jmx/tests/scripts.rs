//! Scripts and the translation: what they write is no constant. No script runs here.

use super::*;
use crate::program::{Installation, TextPart};

/// Reads a plan beside `files`, with a JMeter whose classes are not needed.
fn load_scripts(inside: &str, files: &[(&str, &str)]) -> Plan {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let jmeter = Some(Installation { home: "/jmeter".into() });
    let options = Options { jmeter, ..Options::default() };
    load_text(&plan(inside), folder.path(), &options).expect("a plan")
}

/// Whether the server of the first request is a constant: `host` and `port` of the plan.
fn is_fixed(plan: &Plan) -> bool {
    matches!(requests(plan)[0].url, Url::Parts { .. })
}

#[test]
fn variables_that_the_file_of_a_script_sets_are_no_constants() {
    let get = sampler("get", &[], "");
    let with_file = |class: &str, property: &str, name: &str, text: &str| {
        let script = element(class, &[(property, name)]);
        load_scripts(&group(&(script + &get)), &[("set.groovy", text)])
    };
    let fixed =
        |name: &str, text: &str| is_fixed(&with_file("JSR223Sampler", "filename", name, text));
    assert!(fixed("set.groovy", "vars.put('other', 'x')"));
    assert!(!fixed("set.groovy", "vars.put('host', 'x')"));
    assert!(!fixed("set.groovy", "for (name in ['host']) { vars.put(name, 'x') }"));
    // The file is known only while the plan runs.
    assert!(!fixed("${file}.groovy", ""));
    assert!(!fixed("later.groovy", ""));
    for (class, property) in [
        ("JSR223PreProcessor", "filename"),
        ("BeanShellSampler", "BeanShellSampler.filename"),
        ("BeanShellAssertion", "BeanShellAssertion.filename"),
    ] {
        let plan = with_file(class, property, "set.groovy", "vars.put(\"host\", \"x\")");
        assert!(!is_fixed(&plan), "{class}");
    }
    let property = sampler("get", &[("HTTPSampler.path", "/${__P(token,none)}")], "");
    let unknown = element("JSR223Sampler", &[("filename", "${file}")]);
    let plan = load_scripts(&group(&(unknown + &property)), &[]);
    let Url::Absolute(url) = requests(&plan)[0].url.clone() else { panic!("it changes") };
    let is_default =
        |part: &TextPart| matches!(part, TextPart::Literal(text) if text.contains("none"));
    assert!(!url.parts().iter().any(is_default), "{url:?}");
}

#[test]
fn the_file_of_a_script_may_read_the_sample_before_it() {
    let reads = |class: &str, text: &str| {
        let script = element(class, &[("filename", "read.groovy")]);
        let inside = sampler("a", &[], "") + &sampler("b", &[], &script);
        let inside = match class {
            "JSR223Sampler" => sampler("a", &[], "") + &script,
            _ => inside,
        };
        let plan = load_scripts(&group(&inside), &[("read.groovy", text)]);
        plan.program.scripts.as_ref().expect("scripts").reads_previous
    };
    for class in ["JSR223Sampler", "JSR223PreProcessor"] {
        assert!(reads(class, "log.info(prev.getResponseDataAsString())"), "{class}");
        assert!(!reads(class, "log.info('nothing')"), "{class}");
    }
}

#[test]
fn what_scripts_write_in_any_notation_is_no_constant() {
    let get = sampler("get", &[("HTTPSampler.path", "/${__P(token,none)}")], "");
    let with = |script: &str| {
        let script = element("JSR223Sampler", &[("script", script)]);
        load_scripts(&group(&(script + &get)), &[])
    };
    assert!(is_fixed(&with("vars.put('other', vars.get('host'))")));
    for script in ["vars.put (\"host\", x)", "vars.put \"host\", x", "vars.remove 'host'"] {
        assert!(!is_fixed(&with(script)), "{script}");
    }
    let is_read_later = |script: &str| {
        let Url::Parts { target, .. } = requests(&with(script))[0].url.clone() else {
            panic!("{script}")
        };
        target.as_fixed().is_none()
    };
    assert!(!is_read_later("props.other = props['token'] == props.token"));
    for script in ["props['token'] = x", "props.token = x", "props.put 'token', x"] {
        assert!(is_read_later(script), "{script}");
    }
}

#[test]
fn what_expressions_write_is_no_constant() {
    for function in [
        "${__javaScript(vars.put('host'\\,'1'))}",
        "${__jexl3(vars.put(\"host\"\\,\"1\"))}",
        "${__jexl2(vars.put(\"host\"\\,\"1\"))}",
    ] {
        let inside = sampler("set", &[("HTTPSampler.path", &format!("/{function}"))], "");
        assert!(!is_fixed(&load(&group(&inside)).expect(function)), "{function}");
    }
    let condition = |text: &str| {
        let inside = element("IfController", &[("IfController.condition", text)]);
        load(&group(&(inside + &sampler("get", &[], "")))).expect(text)
    };
    assert!(!is_fixed(&condition("vars.put('host', '1') == null")));
    let reads = condition("vars.get('host') == 'h'");
    assert!(is_fixed(&reads));
    assert!(reads.program.variables.iter().any(|name| name == "host"), "it is read by its name");
}

#[test]
fn jars_of_the_plan_are_on_the_class_path() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.jar"), "").expect("written");
    std::fs::create_dir(folder.path().join("own")).expect("made");
    let load = |paths: &str, inside: &str| {
        let start = "<elementProp name=\"TestPlan.user_defined_variables\"";
        let property =
            format!("<stringProp name=\"TestPlan.user_define_classpath\">{paths}</stringProp>");
        let text = plan(&group(inside)).replacen(start, &(property + start), 1);
        let jmeter = Some(Installation { home: "/jmeter".into() });
        load_text(&text, folder.path(), &Options { jmeter, ..Options::default() })
    };
    let script = element("JSR223Sampler", &[("script", "null")]);
    let plan = load("a.jar, own", &script).expect("a plan");
    let root = folder.path().canonicalize().expect("a path");
    let expected = ["a.jar", "own/*", "own"].map(|part| root.join(part));
    assert_eq!(plan.program.scripts.as_ref().expect("scripts").class_path, expected);
    let error = load("a.jar,none.jar", &script).expect_err("refused").to_string();
    assert!(error.contains("`none.jar` of `TestPlan.user_define_classpath`"), "{error}");
    load("none.jar", &sampler("a", &[], "")).expect("nothing needs it");
}
