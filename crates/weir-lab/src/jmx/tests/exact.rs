//! What is read completely, or reported: nothing changes requests silently.

use super::*;
use crate::program::{Feeder, Share, ThroughputOf};

#[test]
fn children_of_samplers_that_nothing_reads_are_reported() {
    for class in
        ["URLRewritingModifier", "AnchorModifier", "RegExUserParameters", "RandomCSVDataSetConfig"]
    {
        let problems = load(&group(&sampler("s", &[], &element(class, &[])))).expect_err(class);
        assert!(
            problems[0].contains(class) && problems[0].contains("does not support"),
            "{problems:?}"
        );
    }
    let sampler_with = |class: &str, below: &str| {
        element(class, &[]).replace("<hashTree/>", &format!("<hashTree>{below}</hashTree>"))
    };
    let inside = sampler_with("DebugSampler", &element("SampleTimeout", &[]));
    assert!(load(&group(&inside)).is_err());
    let disabled = element("AnchorModifier", &[]).replace("testname", "enabled=\"false\" testname");
    load(&group(&sampler("s", &[], &disabled))).expect("a plan");
}

#[test]
fn elements_of_a_plan_without_line_breaks_differ() {
    let file = |name: &str, text: &str, folder: &Path| {
        std::fs::write(folder.join(name), text).expect("written");
        element("CSVDataSet", &[("filename", name), ("variableNames", &name[..1])])
    };
    let folder = tempfile::tempdir().expect("a folder");
    let inside = file("a.csv", "1\n", folder.path())
        + &file("b.csv", "2\n", folder.path())
        + &sampler("s", &[("HTTPSampler.path", "/${a}/${b}")], "");
    let text = plan(&group(&inside)).replace('\n', " ");
    let plan = load_text(&text, folder.path(), &Options::default()).expect("a plan");
    let rows = |feeder: &std::sync::Arc<Feeder>| feeder.rows[0][0].to_string();
    let rows: Vec<String> = plan.program.feeders.iter().map(rows).collect();
    assert_eq!(rows, ["1", "2"]);
}

#[test]
fn a_delimiter_may_have_several_characters() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.csv"), "1||2|3\n").expect("written");
    let rows = |quoted: &str| {
        let data = element(
            "CSVDataSet",
            &[
                ("filename", "a.csv"),
                ("variableNames", "x,y"),
                ("delimiter", "||"),
                ("quotedData", quoted),
            ],
        );
        let text = plan(&group(&(data + &sampler("s", &[], ""))));
        let plan = load_text(&text, folder.path(), &Options::default()).expect("a plan");
        plan.program.feeders[0].rows[0].iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    assert_eq!(rows("false"), ["1", "2|3"]);
    // JMeter takes the first character only.
    assert_eq!(rows("true"), ["1", ""]);
}

#[test]
fn elements_of_an_iteration_run_below_any_sampler() {
    let counter = element("CounterConfig", &[("CounterConfig.name", "c")]);
    for class in ["DebugSampler", "DummySampler", "TestAction"] {
        let inside = element(class, &[("ActionProcessor.action", "1")])
            .replace("<hashTree/>", &format!("<hashTree>{counter}</hashTree>"));
        let plan = load(&group(&inside)).unwrap_or_else(|problems| panic!("{class}: {problems:?}"));
        let steps = &plan.program.groups[0].steps;
        assert!(matches!(steps[0], Step::Count(_)), "{class}: {steps:?}");
    }
}

#[test]
fn a_scheduler_needs_a_duration() {
    let scheduled = |duration: &str| {
        let scheduler = format!(
            "<boolProp name=\"ThreadGroup.scheduler\">true</boolProp><stringProp \
             name=\"ThreadGroup.duration\">{duration}</stringProp><intProp"
        );
        load(&group(&sampler("s", &[], "")).replacen("<intProp", &scheduler, 1))
    };
    scheduled("5").expect("a plan");
    for duration in ["", "0"] {
        let problems = scheduled(duration).expect_err("refused");
        assert!(problems[0].contains("JMeter stops the test"), "{problems:?}");
    }
}

#[test]
fn the_name_of_a_sampler_is_evaluated_for_each_kind() {
    let named = |name: &str| sampler(name, &[("HTTPSampler.path", "/${__samplerName()}")], "");
    let plan = load(&group(&(named("one") + &named("t ${__threadNum}")))).expect("a plan");
    let target = |at: usize| match &requests(&plan)[at].url {
        Url::Parts { target, .. } => target.clone(),
        url => panic!("{url:?}"),
    };
    assert_eq!(target(0).as_fixed(), Some("/one"));
    assert!(target(1).as_fixed().is_none() && target(1).parts().len() == 2, "{:?}", target(1));
    let inside =
        named("one") + &element("ConstantTimer", &[("ConstantTimer.delay", "${__samplerName()}")]);
    load(&group(&inside)).expect("a timer of the sampler");
    let before = element(
        "CounterConfig",
        &[("CounterConfig.name", "c"), ("CounterConfig.start", "${__samplerName()}")],
    );
    let problems = load(&group(&(named("one") + &before))).expect_err("no sampler");
    assert!(problems[0].contains("only in samplers"), "{problems:?}");
}

#[test]
fn formats_and_seeds_that_change_values_are_reported() {
    let with = |class: &str, property: (&str, &str)| {
        load(&group(&(element(class, &[property]) + &sampler("s", &[], ""))))
    };
    for (class, property) in
        [("CounterConfig", "CounterConfig.format"), ("RandomVariableConfig", "outputFormat")]
    {
        for format in ["0a0", "0.0", "000%"] {
            with(class, (property, format)).expect_err(format);
        }
        for format in ["user_000", "0000000", "000-x", "#,##0"] {
            with(class, (property, format)).expect(format);
        }
    }
    with("RandomVariableConfig", ("randomSeed", "42")).expect_err("a seed");
    with("RandomVariableConfig", ("randomSeed", "")).expect("a plan");
}

#[test]
fn functions_in_the_text_of_eval_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("body.json"), "${__UUID()} ${v}").expect("written");
    let path = "/${__eval(${__FileToString(body.json)})}";
    let text = plan(&group(&sampler("s", &[("HTTPSampler.path", path)], "")));
    let Err(JmxError::Problems(problems)) = load_text(&text, folder.path(), &Options::default())
    else {
        panic!("it is reported")
    };
    assert!(problems[0].to_string().contains("no functions"), "{problems:?}");
}

#[test]
fn many_unclosed_brackets_are_an_error_soon() {
    let text = "${__a(".repeat(100_000);
    let problems =
        load(&group(&sampler("s", &[("HTTPSampler.path", &text)], ""))).expect_err("refused");
    assert!(problems[0].contains("deeper than 32"), "{problems:?}");
}

#[test]
fn the_sharing_of_a_data_set_may_be_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.csv"), "1\n").expect("written");
    let share = |mode: &str| {
        let properties = [("filename", "a.csv"), ("variableNames", "x"), ("shareMode", mode)];
        let text = plan(&group(&(element("CSVDataSet", &properties) + &sampler("s", &[], ""))));
        load_text(&text, folder.path(), &Options::default())
            .map(|plan| plan.program.feeders[0].share)
            .ok()
    };
    assert_eq!(share("All threads"), Some(Share::All));
    assert_eq!(share("Current thread group"), Some(Share::Group));
    assert_eq!(share("Current thread"), Some(Share::User));
    assert_eq!(share("key"), None);
}

#[test]
fn the_mode_of_a_throughput_timer_may_be_in_words() {
    let of = |mode: &str| {
        let properties = [("throughput", "60"), ("calcMode", mode)];
        let timer = element("ConstantThroughputTimer", &properties);
        let plan = load(&group(&(timer + &sampler("s", &[], "")))).ok()?;
        plan.program.groups[0].steps.iter().find_map(|step| match step {
            Step::Throughput { of, .. } => Some(*of),
            _ => None,
        })
    };
    for (number, words, expected) in [
        ("0", "this thread only", ThroughputOf::User),
        ("1", "all active threads", ThroughputOf::AllUsers),
        ("2", "all active threads in current thread group", ThroughputOf::Group),
        ("3", "all active threads (shared)", ThroughputOf::AllUsersShared),
        ("4", "all active threads in current thread group (shared)", ThroughputOf::GroupShared),
    ] {
        assert_eq!((of(number), of(words)), (Some(expected), Some(expected)), "{words}");
    }
    assert_eq!(of("all threads"), None);
}
