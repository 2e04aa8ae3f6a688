//! Scripts in Groovy, BeanShell and others, which run in the helper JVM, compared with JMeter.

use super::control::{transaction, users};
use super::elements::{el, get_with, group, plan, variables};
use super::transactions::response_assertions;
use super::{JMETER, compare_scripts};
use crate::harness::weir;

fn jsr223(role: &str, name: &str, script: &str) -> String {
    let properties = [
        ("scriptLanguage", "groovy"),
        ("script", script),
        ("parameters", "p1 ${n}"),
        ("filename", ""),
        ("cacheKey", "true"),
    ];
    el(&format!("JSR223{role}"), name, &properties, "")
}

fn bean_shell(role: &str, name: &str, script: &str) -> String {
    let prefix = match role {
        "Sampler" => "BeanShellSampler.",
        "Assertion" => "BeanShellAssertion.",
        _ => "",
    };
    let names = match prefix {
        "" => ["script", "parameters", "filename", "resetInterpreter"].map(str::to_owned),
        _ => {
            ["query", "parameters", "filename", "resetInterpreter"].map(|n| format!("{prefix}{n}"))
        }
    };
    let values = [script, "a b", "", "false"];
    let properties: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
    el(&format!("BeanShell{role}"), name, &properties, "")
}

/// A request that shows variables.
fn show(name: &str, texts: &str) -> String {
    get_with(name, &format!("/status/200?{name}={texts}"), "")
}

fn post_with(name: &str, below: &str) -> String {
    let argument = "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\">\
        <collectionProp name=\"Arguments.arguments\"><elementProp name=\"k\" \
        elementType=\"HTTPArgument\"><boolProp name=\"HTTPArgument.always_encode\">true</boolProp>\
        <stringProp name=\"Argument.name\">k</stringProp><stringProp name=\"Argument.value\">v ${n}\
        </stringProp><stringProp name=\"Argument.metadata\">=</stringProp></elementProp>\
        </collectionProp></elementProp>";
    let properties = [
        ("raw:", argument),
        ("HTTPSampler.path", "/echo"),
        ("HTTPSampler.method", "POST"),
        ("HTTPSampler.use_keepalive", "true"),
    ];
    el("HTTPSamplerProxy", name, &properties, below)
}

fn samplers() -> String {
    let counting = "def c = (vars.get('c') ?: '0') as int; vars.put('c', String.valueOf(c + 1)); \
        vars.put('n', 'n' + c); props.put('p' + ctx.threadNum, Parameters + args.length); \
        SampleResult.setResponseHeaders('A: b'); log.info('counted ' + c); \
        return 'count ' + c + ' ' + Label + ' ' + sampler.getName() + ' ' + threadName()\n\
        String threadName() { Thread.currentThread().getName().replaceAll(' ', '_') }";
    let failing = "SampleResult.setResponseCode('503'); SampleResult.setResponseMessage('busy'); \
        SampleResult.setSuccessful(false); SampleResult.setResponseData('no ${n}', 'UTF-8')";
    let all = [
        jsr223("Sampler", "count", counting),
        show("counted", "${c},${n},${__groovy(props.get('p' + ctx.threadNum))}"),
        jsr223("Sampler", "fails", failing),
        show("after failure", "${JMeterThread.last_sample_ok}"),
        jsr223("Sampler", "throws", "throw new IllegalStateException('broken')"),
        jsr223("Sampler", "ignored", "SampleResult.setIgnore(); vars.put('ig', '1')"),
        jsr223(
            "Sampler",
            "renamed",
            "SampleResult.setSampleLabel('renamed ' + vars.get('c')); 'x'",
        ),
        bean_shell(
            "Sampler",
            "bean",
            "vars.put(\"b\", bsh.args[1]); ResponseCode = \"201\"; \
            ResponseMessage = \"made\"; return \"r ${n}\";",
        ),
        bean_shell(
            "Sampler",
            "bean fails",
            "IsSuccess = false; ResponseCode = \"400\"; return \"\";",
        ),
        bean_shell(
            "Sampler",
            "bean state",
            "if (x == void) { x = 0; } x++; vars.put(\"x\", \"\" + x);",
        ),
        show("others", "${ig},${b},${x}"),
    ];
    all.concat()
}

fn before_requests() -> String {
    let change = "sampler.addArgument('added', vars.get('n')); sampler.setPath('/echo?from=' + \
        vars.get('c')); sampler.getHeaderManager().add(new \
        org.apache.jmeter.protocol.http.control.Header('X-Order', 'o ' + vars.get('c')))";
    let body = "sampler.setPostBodyRaw(true); sampler.getArguments().removeAllArguments(); \
        sampler.addNonEncodedArgument('', '{\"n\": \"' + vars.get('n') + '\"}', '')";
    // In JMeter, fields of a manager that is the only one are those of the thread from then on.
    let own_fields = "<collectionProp name=\"HeaderManager.headers\"><elementProp name=\"\" \
        elementType=\"Header\"><stringProp name=\"Header.name\">X-Inner</stringProp><stringProp \
        name=\"Header.value\">${n}</stringProp></elementProp></collectionProp>";
    let own_fields = el("HeaderManager", "own", &[("raw:", own_fields)], "");
    let all = [
        post_with("changed form", &(own_fields + &jsr223("PreProcessor", "change", change))),
        show("unchanged", "${n}"),
        post_with("changed body", &jsr223("PreProcessor", "body", body)),
        post_with(
            "bean form",
            &bean_shell("PreProcessor", "bean", "sampler.addArgument(\"b\", vars.get(\"n\"));"),
        ),
    ];
    all.concat()
}

fn after_requests() -> String {
    let extractor = el(
        "RegexExtractor",
        "regex",
        &[
            ("RegexExtractor.useHeaders", "false"),
            ("RegexExtractor.refname", "found"),
            ("RegexExtractor.regex", "(\\w+) (\\w+)"),
            ("RegexExtractor.template", "$2$"),
            ("RegexExtractor.default", "none"),
            ("RegexExtractor.match_number", "1"),
        ],
        "",
    );
    let before = "vars.put('early', String.valueOf(vars.get('found') == null)); vars.put('len', \
        String.valueOf(prev.getResponseDataAsString().length()))";
    let after = "vars.put('late', vars.get('found') + prev.getResponseCode() + prev.getUrlAsString()\
        .contains('text') + prev.isSuccessful())";
    let text = |below: &str, name: &str| get_with(name, "/text", below);
    let response = el(
        "ResponseAssertion",
        "contains",
        &[
            (
                "raw:",
                "<collectionProp name=\"Asserion.test_strings\"><stringProp \
                 name=\"0\">${__groovy('hel' + 'lo')}</stringProp></collectionProp>",
            ),
            ("Assertion.test_field", "Assertion.response_data"),
            ("int:Assertion.test_type", "16"),
        ],
        "",
    );
    let failed = "if (prev.getResponseDataAsString().contains('hello')) { \
        AssertionResult.setFailure(true); AssertionResult.setFailureMessage('has ' + vars.get('found')) }";
    let all = [
        jsr223("Sampler", "clean", "vars.remove('found'); return null"),
        text(
            &[
                jsr223("PostProcessor", "before", before),
                extractor,
                jsr223("PostProcessor", "after", after),
                bean_shell(
                    "PostProcessor",
                    "bean",
                    "vars.put(\"bp\", prev.getResponseMessage() + data.length);",
                ),
            ]
            .concat(),
            "extracted",
        ),
        show("seen", "${early},${len},${late},${bp}"),
        text(&(response.clone() + &jsr223("Assertion", "assert", failed)), "asserted"),
        text(
            &bean_shell(
                "Assertion",
                "bean",
                "Failure = !ResponseCode.equals(\"404\"); \
                FailureMessage = \"code \" + ResponseCode + SampleResult.isSuccessful();",
            ),
            "bean asserted",
        ),
        text(&jsr223("Assertion", "passes", "assert prev.isSuccessful()"), "passes"),
        text(
            &jsr223(
                "PostProcessor",
                "fail",
                "prev.setSuccessful(false); prev.setResponseMessage('judged')",
            ),
            "judged",
        ),
        get_with(
            "forgiven",
            "/status/404",
            &jsr223(
                "PostProcessor",
                "good",
                "prev.setSuccessful(true); prev.setResponseCode('200')",
            ),
        ),
        text(
            &(jsr223("Timer", "wait", "vars.put('t', '1'); return 5L")
                + &bean_shell("Timer", "bean", "return 3;")
                + &jsr223(
                    "Listener",
                    "listen",
                    "vars.put('heard', sampleResult.getSampleLabel())",
                )),
            "timed",
        ),
        show("waited", "${t},${heard}"),
        transaction(
            "Group",
            false,
            &text(&jsr223("PreProcessor", "p", "vars.put('tx', '1')"), "in group"),
        ),
    ];
    all.concat()
}

fn functions() -> String {
    let condition = |text: &str, below: &str| {
        el(
            "IfController",
            "if",
            &[("IfController.condition", text), ("IfController.useExpression", "true")],
            below,
        )
    };
    let loops = el(
        "WhileController",
        "while",
        &[("WhileController.condition", "${__groovy((vars.get('w') as int) < 3)}")],
        &(jsr223("Sampler", "next", "vars.put('w', String.valueOf((vars.get('w') as int) + 1))")
            + &show("while ${w}", "${w}")),
    );
    let all = [
        show("groovy", "${__groovy(1 + 2,sum)},${sum},${__groovy('${n}'.reverse())}"),
        show("label ${__groovy('l' + 1)}", "x"),
        show("bean", "${__BeanShell(1+1)},${__BeanShell(vars.get(\"n\"),bs)},${bs}"),
        condition("${__groovy(vars.get('n') != null)}", &show("if yes", "1")),
        condition("${__groovy(vars.get('n') == null)}", &show("if no", "1")),
        jsr223("Sampler", "zero", "vars.put('w', '0')"),
        loops,
        get_with(
            "code",
            "/status/404",
            &jsr223("PostProcessor", "code", "vars.put('code', prev.responseCode)"),
        ),
        show("previous", "${__groovy(prev.getResponseCode())},${code}"),
        show("file", "${__XPath(data.xml,//b/text())}"),
        show("alias", "${__CSVRead(pairs.csv,*ROWS)}${__CSVRead(*ROWS,1)}"),
        show("written", "${__StringToFile(written.txt,text,false)}"),
        show("fixed", "${plan}"),
        show("defined", "${made},${later},${made_too}"),
    ];
    all.concat()
}

fn transactions() -> String {
    let judge = "def all = SampleResult.getSampleLabel() + ' ' + SampleResult.getResponseCode() + ' of ' + \
        prev.getSampleLabel(); vars.put('judged', (vars.get('judged') ?: '') + '/' + all.replace(' ', '_')); \
        AssertionResult.setFailure(SampleResult.getSampleLabel() == 'fails'); \
        AssertionResult.setFailureMessage('judged ' + all)";
    let bean = "if (SampleResult.getSampleLabel().equals(\"bad\")) { Failure = true; \
        FailureMessage = \"bad is bad\"; }";
    let hears =
        "vars.put('heard', (vars.get('heard') ?: '') + '/' + sampleResult.getSampleLabel())";
    let judged = jsr223("Assertion", "judge", judge);
    let two = |a: &str, b: &str| show(a, "1") + &show(b, "2");
    let inner = transaction("inner", true, &two("e", "f"));
    let all = [
        transaction("good", true, &(judged.clone() + &two("a", "b"))),
        transaction("fails", true, &(judged.clone() + &two("c", "d"))),
        transaction("bad", true, &(bean_shell("Assertion", "bean", bean) + &two("i", "j"))),
        transaction("outer", true, &(judged + &inner + &show("g", "3"))),
        transaction("heard", true, &(jsr223("Listener", "hears", hears) + &show("h", "4"))),
        show("judged", "${judged},${heard}"),
    ];
    all.concat()
}

fn flow() -> String {
    let next = "if (vars.get('once') == null) { vars.put('once', '1'); \
        ctx.setStartNextThreadLoop(true) }";
    let stop = "if (vars.getIteration() > 0 && vars.get('twice') != null) \
        SampleResult.setStopThread(true); vars.put('twice', '1')";
    [
        jsr223("Sampler", "next iteration", next),
        show("not the first time", "1"),
        jsr223("Sampler", "stops", stop),
        show("before the stop", "1"),
    ]
    .concat()
}

#[test]
fn scripts_see_and_change_what_they_do_in_jmeter() {
    let data = b"<a><b>one</b><b>two</b></a>";
    let defined = variables(&[
        ("n", "1"),
        ("plan", "p"),
        ("made", "${__groovy(6 * 7)}"),
        ("later", "x${__BeanShell(1+1)}${__groovy('a' + 'b')}"),
    ]) + &variables(&[("made_too", "${__groovy(vars.get('made') + '${later}')}")]);
    let groups = [
        users("Samplers", "2", &samplers()),
        users("Before", "2", &before_requests()),
        users("After", "2", &after_requests()),
        users("Functions", "1", &functions()),
        users("Transactions", "2", &transactions()),
        users("Flow", "4", &flow()),
    ];
    let plan = plan(&(defined + &groups.concat()));
    let files: [(&str, &[u8]); 2] = [("data.xml", data), ("pairs.csv", b"a,b\nc,d\n")];
    compare_scripts("scripts", &plan, &files);
}

#[test]
fn scripts_in_files() {
    let file = |class: &str, name: &str, property: &str, file: &str| {
        let properties = [("scriptLanguage", "groovy"), ("cacheKey", "true"), (property, file)];
        el(class, name, &properties, "")
    };
    let reads = file("JSR223PreProcessor", "reads", "filename", "reads-length.groovy");
    let all = [
        show("before", "${token}"),
        file("JSR223Sampler", "sets", "filename", "sets-token.groovy"),
        show("set", "${token}"),
        file("JSR223Sampler", "any", "filename", "sets-${name}.groovy"),
        show("set by any", "${token},${other}"),
        file("BeanShellSampler", "bean", "BeanShellSampler.filename", "sets-token.bsh"),
        show("set by bean", "${token}"),
        get_with("read", "/text", ""),
        get_with("reads", "/status/200?reads", &reads),
        show("length", "${length}"),
    ];
    let defined = variables(&[("token", "none"), ("other", "none"), ("name", "other")]);
    let plan = plan(&(defined + &users("Files", "2", &all.concat())));
    let files: [(&str, &[u8]); 4] = [
        ("sets-token.groovy", b"vars.put('token', 'set' + vars.get('token').length()); null"),
        ("sets-other.groovy", b"vars.put('other', 'any'); null"),
        ("sets-token.bsh", b"vars.put(\"token\", \"bean\"); return \"\";"),
        (
            "reads-length.groovy",
            b"vars.put('length', String.valueOf(prev.getResponseDataAsString().length()))",
        ),
    ];
    compare_scripts("script-files", &plan, &files);
}

#[test]
fn variables_and_properties_are_set_in_any_notation() {
    let sets = "vars.put (\"a\", '1'); vars.put 'b', '2'; props['notation.p'] = '3'; \
        props.notation = '4'; null";
    let all = [
        show("before", "${a},${b},${c}"),
        jsr223("Sampler", "sets", sets),
        show("after", "${a},${b},${__P(notation.p,none)},${__P(notation,none)}"),
        show("expression", "${__javaScript(vars.put('c'\\,'5'); 'x')}"),
        show("after expression", "${c}"),
    ];
    let defined = variables(&[("a", "none"), ("b", "none"), ("c", "none"), ("n", "1")]);
    let plan = plan(&(defined + &users("Notations", "2", &all.concat())));
    compare_scripts("script-notations", &plan, &[]);
}

#[test]
fn scripts_use_classes_of_the_plan() {
    let Some(home) = JMETER.as_deref() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own");
    std::fs::create_dir(&own).expect("made");
    // Groovy compiles what it finds on the class path.
    let class = "class Own { static String name() { 'a class of the plan' } }";
    std::fs::write(own.join("Own.groovy"), class).expect("written");
    let inside = jsr223("Sampler", "script", "log.warn('from ' + Own.name()); null");
    let start = "<boolProp name=\"TestPlan.serialize_threadgroups\"";
    let property = "<stringProp name=\"TestPlan.user_define_classpath\">own</stringProp>";
    let text = plan(&group("Users", "1", "1", &[], &inside));
    let text = text.replacen(start, &format!("{property}{start}"), 1);
    std::fs::write(folder.path().join("p.jmx"), text).expect("written");
    let home = home.to_str().expect("text");
    let args = ["lab", "run", "-Jport=1", "--out", "out", "--jmeter", home, "p.jmx"];
    let output = weir(folder.path(), &args);
    let log = std::fs::read_to_string(folder.path().join("out/scripts.log")).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("from a class of the plan"), "{log}\n{printed}");
}

/// Runs a plan of a script with the Lab only. Gives the exit code, the result, and what was printed.
fn run_script(script: &str, more: &[&str]) -> Option<(Option<i32>, String, String)> {
    let home = JMETER.as_deref()?.to_str().expect("text");
    let folder = tempfile::tempdir().expect("a folder");
    let inside = jsr223("Sampler", "script", script);
    let text = plan(&group("Users", "2", "5", &[], &inside));
    std::fs::write(folder.path().join("p.jmx"), text).expect("written");
    let args = ["lab", "run", "--json", "-Jport=1", "--out", "out", "--jmeter", home];
    let output = weir(folder.path(), &[&args, more, &["p.jmx"]].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let log = std::fs::read_to_string(folder.path().join("out/scripts.log")).unwrap_or_default();
    let result = text(&output.stdout).lines().last().unwrap_or_default().to_owned();
    Some((output.status.code(), result + &text(&output.stderr), log))
}

#[test]
fn a_helper_that_ends_makes_the_run_invalid() {
    let Some((code, result, _)) = run_script("Runtime.runtime.halt(3)", &[]) else { return };
    assert_eq!(code, Some(3), "{result}");
    assert!(
        result.contains("INVALID") && result.contains("helper JVM for scripts ended"),
        "{result}"
    );
}

#[test]
fn what_scripts_log_and_print_is_in_the_results_folder() {
    let script = "log.warn('from ' + Label); println 'printed'; System.out.flush(); 'x'";
    let Some((_, result, log)) = run_script(script, &[]) else { return };
    assert!(result.contains("\"samples\":10"), "{result}");
    assert!(log.contains("from script") && log.contains("printed"), "{log}");
}

#[test]
fn a_folder_that_is_no_jmeter_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = weir(folder.path(), &["lab", "run", "--jmeter", ".", "p.jmx"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it has no bin/ApacheJMeter.jar"), "{said}");
}

#[test]
fn assertions_of_scripts() {
    let sampler = |name: &str, script: &str, below: &str| {
        let properties = [("scriptLanguage", "groovy"), ("script", script)];
        el("JSR223Sampler", name, &properties, below)
    };
    let full = "SampleResult.setResponseHeaders('A: b'); SampleResult.setSamplerData('sent'); 'x'";
    let inside: String = response_assertions()
        .iter()
        .map(|(name, assertion)| {
            sampler(&format!("plain {name}"), "null", assertion)
                + &sampler(&format!("empty {name}"), "SampleResult.setSamplerData('')", assertion)
                + &sampler(&format!("full {name}"), full, assertion)
                + &get_with(&format!("request {name}"), "/text", assertion)
        })
        .collect();
    compare_scripts("script-assertions", &plan(&group("G", "1", "1", &[], &inside)), &[]);
}
