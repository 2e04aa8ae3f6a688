mod control;
mod exact;
mod keystore;
mod scripts;

use super::*;
use crate::program::{Body, Executor, Request, Step, Text, Url};

/// A plan with these elements below its test plan.
fn plan(inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\"><hashTree>\n\
         <TestPlan testclass=\"TestPlan\" testname=\"p\"><elementProp \
         name=\"TestPlan.user_defined_variables\" elementType=\"Arguments\"><collectionProp \
         name=\"Arguments.arguments\">{}</collectionProp></elementProp></TestPlan>\n\
         <hashTree>\n{inside}\n</hashTree></hashTree></jmeterTestPlan>",
        argument("host", "127.0.0.1") + &argument("port", "${__P(port,8080)}")
    )
}

fn argument(name: &str, value: &str) -> String {
    format!(
        "<elementProp name=\"{name}\" elementType=\"Argument\"><stringProp name=\"Argument.name\">\
         {name}</stringProp><stringProp name=\"Argument.value\">{value}</stringProp></elementProp>"
    )
}

fn group(inside: &str) -> String {
    format!(
        "<ThreadGroup testclass=\"ThreadGroup\" testname=\"Users\"><intProp \
         name=\"ThreadGroup.num_threads\">2</intProp><stringProp \
         name=\"ThreadGroup.ramp_time\">${{__P(ramp,3)}}</stringProp><elementProp \
         name=\"ThreadGroup.main_controller\" elementType=\"LoopController\"><boolProp \
         name=\"LoopController.continue_forever\">false</boolProp><stringProp \
         name=\"LoopController.loops\">5</stringProp></elementProp></ThreadGroup>\n\
         <hashTree>\n{inside}</hashTree>"
    )
}

fn sampler(name: &str, properties: &[(&str, &str)], below: &str) -> String {
    let properties: String = properties
        .iter()
        .map(|(name, value)| format!("<stringProp name=\"{name}\">{value}</stringProp>"))
        .collect();
    format!(
        "<HTTPSamplerProxy testclass=\"HTTPSamplerProxy\" testname=\"{name}\"><stringProp \
         name=\"HTTPSampler.domain\">${{host}}</stringProp><stringProp \
         name=\"HTTPSampler.port\">${{port}}</stringProp>{properties}</HTTPSamplerProxy>\n\
         <hashTree>{below}</hashTree>\n"
    )
}

fn element(class: &str, properties: &[(&str, &str)]) -> String {
    let properties: String = properties
        .iter()
        .map(|(name, value)| format!("<stringProp name=\"{name}\">{value}</stringProp>"))
        .collect();
    format!("<{class} testclass=\"{class}\" testname=\"e\">{properties}</{class}>\n<hashTree/>\n")
}

fn load(inside: &str) -> Result<Plan, Vec<String>> {
    load_with(inside, &Options::default())
}

fn load_with(inside: &str, options: &Options) -> Result<Plan, Vec<String>> {
    let text = plan(inside);
    match load_text(&text, Path::new(""), options) {
        Ok(plan) => Ok(plan),
        Err(JmxError::Problems(problems)) => {
            Err(problems.iter().map(ToString::to_string).collect())
        }
        Err(error) => panic!("{error}"),
    }
}

/// All requests of a plan's first group.
fn requests(plan: &Plan) -> Vec<Request> {
    fn of(steps: &[Step], found: &mut Vec<Request>) {
        for step in steps {
            match step {
                Step::Request(request) => found.push((**request).clone()),
                step => step.branches().iter().for_each(|steps| of(steps, found)),
            }
        }
    }
    let mut found = Vec::new();
    of(&plan.program.groups[0].steps, &mut found);
    found
}

#[test]
fn constants_and_properties_are_put_in_where_they_are_used() {
    let inside = group(&sampler("get", &[("HTTPSampler.path", "a b")], ""));
    let options =
        Options { properties: vec![("port".to_owned(), "18080".to_owned())], ..Options::default() };
    let plan = load_with(&inside, &options).expect("a plan");
    let group = &plan.program.groups[0];
    let Executor::Users(users) = &group.executor else { panic!("users") };
    assert_eq!((users.users, users.ramp.as_secs(), users.iterations), (2, 3, Some(5)));
    let Url::Parts { origin, target } = &requests(&plan)[0].url else { panic!("parts") };
    assert_eq!((origin.host.as_str(), origin.port), ("127.0.0.1", 18080));
    assert_eq!(target.as_fixed(), Some("/a%20b"));
    assert_eq!(plan.program.labels.names(), ["get"]);
    assert!(plan.program.variables.is_empty(), "nothing changes");
}

#[test]
fn variables_of_extractors_are_not_constants() {
    let extractor = element(
        "RegexExtractor",
        &[("RegexExtractor.refname", "host"), ("RegexExtractor.regex", "h=(.*)")],
    );
    let inside = group(&sampler("get", &[("HTTPSampler.path", "/${host_g1}${other}")], &extractor));
    let plan = load(&inside).expect("a plan");
    assert!(matches!(requests(&plan)[0].url, Url::Absolute(_)));
    for name in ["host", "host_g", "host_g1", "host_matchNr", "other"] {
        assert!(plan.program.variables.iter().any(|known| known == name), "{name}");
    }
    assert_eq!(plan.program.initial.len(), 1);
    assert!(requests(&plan)[0].post_processors[0].derived, "`host_g1` is mentioned");
}

#[test]
fn settings_apply_from_the_nearest_level_outwards() {
    let defaults = |path: &str| element("ConfigTestElement", &[("HTTPSampler.path", path)]);
    let header = |value: &str| {
        format!(
            "<HeaderManager testclass=\"HeaderManager\" testname=\"h\"><collectionProp \
             name=\"HeaderManager.headers\"><elementProp name=\"\" elementType=\"Header\">\
             <stringProp name=\"Header.name\">X-Level</stringProp><stringProp \
             name=\"Header.value\">{value}</stringProp></elementProp></collectionProp>\
             </HeaderManager><hashTree/>"
        )
    };
    let inner = format!(
        "<GenericController testclass=\"GenericController\" testname=\"c\"/><hashTree>{}{}{}\
         </hashTree>",
        defaults("/inner"),
        header("inner"),
        sampler("b", &[], "")
    );
    let inside = defaults("/plan")
        + &header("plan")
        + &group(&(defaults("/group") + &sampler("a", &[], "") + &inner));
    let plan = load(&inside).expect("a plan");
    let seen: Vec<(String, String)> = requests(&plan)
        .iter()
        .map(|request| {
            let Url::Parts { target, .. } = &request.url else { panic!("parts") };
            let text = |text: &Text| text.as_fixed().expect("fixed").to_owned();
            (text(target), text(&request.headers[0].1))
        })
        .collect();
    assert_eq!(
        seen,
        [("/group".to_owned(), "plan".to_owned()), ("/inner".to_owned(), "inner".to_owned())]
    );
}

#[test]
fn bodies_and_queries_are_encoded_as_jmeter_does_it() {
    let list = |arguments: &str| {
        format!(
            "<HTTPSamplerProxy testclass=\"HTTPSamplerProxy\" testname=\"s\"><elementProp \
             name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp \
             name=\"Arguments.arguments\">{arguments}</collectionProp></elementProp><stringProp \
             name=\"HTTPSampler.domain\">h</stringProp><stringProp \
             name=\"HTTPSampler.method\">METHOD</stringProp></HTTPSamplerProxy><hashTree/>"
        )
    };
    let encoded = |name: &str, value: &str, encode: bool| {
        format!(
            "<elementProp name=\"\" elementType=\"HTTPArgument\"><boolProp \
             name=\"HTTPArgument.always_encode\">{encode}</boolProp><stringProp \
             name=\"Argument.name\">{name}</stringProp><stringProp name=\"Argument.value\">{value}\
             </stringProp><stringProp name=\"Argument.metadata\">=</stringProp></elementProp>"
        )
    };
    let arguments = encoded("a", "b c/ä", true) + &encoded("q", "x%20y", false);
    let all = list(&arguments).replace("METHOD", "GET")
        + &list(&arguments).replace("METHOD", "POST")
        + &list(&encoded("", "{&quot;a&quot;: 1}", false)).replace("METHOD", "POST")
        + &list("").replace("METHOD", "DELETE");
    let plan = load(&group(&all)).expect("a plan");
    let requests = requests(&plan);
    let Url::Parts { target, .. } = &requests[0].url else { panic!("parts") };
    assert_eq!(target.as_fixed(), Some("/?a=b+c%2F%C3%A4&q=x%20y"));
    let sent = |request: &Request| {
        let Body::Bytes(body) = &request.body else { panic!("bytes") };
        let content_type = request.client.body_type.clone();
        (String::from_utf8_lossy(body).into_owned(), content_type.unwrap_or_default())
    };
    let form = "application/x-www-form-urlencoded; charset=UTF-8".to_owned();
    assert!(matches!(requests[0].body, Body::None));
    assert_eq!(sent(&requests[1]), ("a=b+c%2F%C3%A4&q=x+y".to_owned(), form.clone()));
    assert_eq!(
        sent(&requests[2]),
        ("{\"a\": 1}".to_owned(), "text/plain; charset=UTF-8".to_owned())
    );
    assert_eq!(sent(&requests[3]), (String::new(), form));
}

#[test]
fn unsupported_elements_are_reported_with_their_line() {
    let script = element("JSR223PostProcessor", &[]);
    let inside = group(
        &(sampler("a", &[("HTTPSampler.path", "/${__groovy(1)}")], &script)
            + &element("JDBCSampler", &[])
            + &element("JSR223Sampler", &[])),
    );
    let problems = load(&inside).expect_err("refused");
    assert_eq!(
        problems,
        [
            "line 7: HTTPSamplerProxy `a`: scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME: `__groovy` (`--lenient` skips it)",
            "line 8: JSR223PostProcessor `e`: scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME (`--lenient` skips it)",
            "line 11: JDBCSampler `e`: the Lab does not support this element (`--lenient` skips it)",
            "line 13: JSR223Sampler `e`: scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME (`--lenient` skips it)",
        ]
    );
    let lenient = Options { lenient: true, ..Options::default() };
    let plan = load_with(&inside, &lenient).expect("a plan");
    assert_eq!((plan.skipped.len(), requests(&plan).len()), (4, 1));
}

#[test]
fn invalid_plans_are_rejected_even_if_lenient() {
    let lenient = Options { lenient: true, ..Options::default() };
    let csv = element("CSVDataSet", &[("filename", "/nowhere.csv"), ("variableNames", "a")]);
    let problems = load_with(&group(&csv), &lenient).expect_err("refused");
    assert!(problems[0].contains("`/nowhere.csv` cannot be read"), "{problems:?}");
    for (text, said) in [
        ("", "line 1: the plan is truncated"),
        ("<html/>", "line 1: not a JMeter plan: its root is not `jmeterTestPlan`"),
        ("<jmeterTestPlan>\n<hashTree>\n", "line 3: the plan is truncated"),
        ("<jmeterTestPlan><hashTree/></jmeterTestPlan>", "line 1: no `TestPlan` element"),
        ("<jmeterTestPlan>\n<a></b>", "line 2: not XML"),
        ("<jmeterTestPlan>&nope;", "line 1: not XML: unknown entity `nope`"),
    ] {
        let problems = match load_text(text, Path::new(""), &lenient) {
            Err(JmxError::Problems(problems)) => problems,
            other => panic!("{text}: {other:?}"),
        };
        assert!(problems[0].to_string().starts_with(said), "{text}: {}", problems[0]);
    }
    let deep = "<a>".repeat(100_000);
    assert!(load_text(&format!("<jmeterTestPlan>{deep}"), Path::new(""), &lenient).is_err());
    let nested = format!("{}x{}", "${__P(a,".repeat(100), ")}".repeat(100));
    assert!(load(&group(&sampler("a", &[("HTTPSampler.path", &nested)], ""))).is_err());
}

#[test]
fn disabled_elements_are_ignored() {
    let off =
        sampler("off", &[], "").replace("testname=\"off\"", "testname=\"off\" enabled=\"false\"");
    let plan = load(&group(&(off + &sampler("on", &[], "")))).expect("a plan");
    assert_eq!(plan.program.labels.names(), ["on"]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_translated_or_rejected(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "${", "}", "(", ")", ",", "\\", "$", "__P", "__Random", "__time", "__counter(", "'yy",
            "__setProperty(", "__property(a,b,", "x", "é", " ", "9", "yyyy", "__FileToString(",
        ]), 0..12)
    ) {
        let text = parts.concat();
        let _ = load(&group(&sampler(&text, &[("HTTPSampler.path", &text)], "")));
    }

    #[test]
    fn any_xml_is_read_or_rejected(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "<jmeterTestPlan>", "</jmeterTestPlan>", "<hashTree>", "</hashTree>", "<hashTree/>",
            "<TestPlan>", "</TestPlan>", "<ThreadGroup/>", "<stringProp name=\"a\">", "</stringProp>",
            "<collectionProp name=\"Arguments.arguments\">", "</collectionProp>", "<doubleProp>",
            "</doubleProp>", "<name>", "</name>", "x", "&amp;", "&#0;", "&#65;", "<![CDATA[", "]]>",
            "<!--", "-->", "<?x", "?>", "<HTTPSamplerProxy testname='é'/>", "<CSVDataSet/>",
        ]), 0..30)
    ) {
        let _ = load_text(&parts.concat(), Path::new(""), &Options::default());
    }
}

#[test]
fn what_is_not_built_is_rejected_with_its_reason() {
    let with_path = |path: &str| sampler("s", &[("HTTPSampler.path", path)], "");
    let with = |property: &'static str, value: &'static str| sampler("s", &[(property, value)], "");
    let below = |class: &str| sampler("s", &[], &element(class, &[]));
    let old_sampler = |class: &str| element(class, &[("HTTPSampler.domain", "h")]);
    load(&group(&old_sampler("HTTPSampler2"))).expect("it has another implementation");
    for (inside, said) in [
        (
            with_path("${__XPath(a.xml,//a)}"),
            "the Lab does not read values of XML files: `__XPath`",
        ),
        (with_path("${__StringToFile(a,b)}"), "the Lab does not write files during a load"),
        (with_path("${__nope(a)}"), "the Lab does not support the function: `__nope`"),
        (
            with_path("${__BeanShell(a)}"),
            "scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME: `__BeanShell`",
        ),
        (with_path("${__jexl3(new(a))}"), "`new` is not supported, in `__jexl3`"),
        (with_path("${__javaScript(java.util.Date())}"), "scripts cannot use `java`"),
        (with_path("${__timeShift(yyyy,,P1D,de_DE,)}"), "the Lab has only English names"),
        (with_path("${__timeShift(TT,,P1D,)}"), "the letter `T` is not supported"),
        (with_path("${__digest(nope,a)}"), "the arguments of `__digest` are invalid"),
        (with_path("${__urlencode()}"), "`__urlencode` has 0 arguments instead of 1 to 1"),
        (below("HTMLAssertion"), "the Lab has no checker of HTML such as JTidy"),
        (below("CompareAssertion"), "the Lab does not compare samples with each other"),
        (
            below("BeanShellAssertion"),
            "scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME",
        ),
        (below("BoltConnectionElement"), "the Lab does not support this element"),
        (with("HTTPSampler.implementation", "Java"), "the implementation `Java`"),
        (old_sampler("HTTPSampler"), "the implementation `Java`"),
        (with("HTTPSampler.ipSource", "eth0"), "sends only from an IP address"),
        (with("HTTPSampler.contentEncoding", "nope"), "does not know the encoding `nope`"),
    ] {
        let problems = load(&group(&inside)).expect_err(said);
        assert!(problems[0].contains(said), "{said}: {problems:?}");
    }
    let proxy = [
        ("HTTPSampler.proxyHost", "p"),
        ("HTTPSampler.proxyPort", "1"),
        ("HTTPSampler.proxyUser", "u"),
    ];
    let problems = load(&group(&sampler("s", &proxy, ""))).expect_err("no sign-in");
    assert!(problems[0].contains("does not sign in to proxies"), "{problems:?}");
    let pattern = [("RegexExtractor.refname", "v"), ("RegexExtractor.regex", "(?&lt;=a)b")];
    let inside = sampler("s", &[], &element("RegexExtractor", &pattern));
    let problems = load(&group(&inside)).expect_err("look-behind");
    assert!(problems[0].contains("no look-behind"), "{problems:?}");
}

#[test]
fn constant_functions_are_computed_when_the_plan_is_read() {
    let path =
        "/${__base64Encode(a:b)}/${__changeCase(x,UPPER,)}/${__samplerName()}/${__urlencode(a b)}";
    let plan = load(&group(&sampler("s", &[("HTTPSampler.path", path)], ""))).expect("a plan");
    let Url::Parts { target, .. } = &requests(&plan)[0].url else { panic!("parts") };
    assert_eq!(target.as_fixed(), Some("/YTpi/X/s/a+b"));
}
