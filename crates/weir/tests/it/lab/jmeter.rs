//! JMeter as the oracle: the same plan on the same server must give the same samples.
//!
//! JMeter comes from Maven Central, by Maven, once; where that cannot be done the tests say so and
//! pass. One process of JMeter runs all plans (`oracle`), since its start takes longer than most plans.

mod choices;
mod control;
mod corpus;
mod elements;
mod files;
mod flow_control;
mod http;
mod keystores;
mod managers;
mod oracle;
mod plugins;
mod scripts;
mod server;
mod texts;
mod transactions;

use crate::harness::weir;
use oracle::{JMETER, WITH_PLUGINS};
use serde_json::{Value, json};
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use weir_lab::jtl;

/// Samples of one label.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    count: u64,
    errors: u64,
    bytes: u64,
    sent: u64,
    codes: BTreeMap<String, u64>,
    /// Messages of failed assertions.
    failures: BTreeSet<String>,
    urls: BTreeSet<String>,
}

type Lines = BTreeMap<String, Line>;

fn lines(text: &[u8]) -> Lines {
    let mut lines = Lines::new();
    let read = jtl::read(text, |row| {
        let line = lines.entry(row.label.to_string()).or_default();
        line.count += 1;
        line.errors += u64::from(!row.success);
        *line.codes.entry(row.code.to_string()).or_default() += 1;
        // The parser of XML has messages of its own.
        if !matches!(&*row.label, "not XML" | "no json fails")
            && !row.success
            && !row.failure.is_empty()
        {
            let failure = row.failure.split(": It took").next().unwrap_or_default();
            line.failures.insert(failure.to_owned());
        }
        line.urls.insert(row.url.to_string());
        // A boundary of JMeter has any length.
        let parts = row.label.starts_with("parts");
        // Of the same page with resources in parallel JMeter counts 2,004 to 2,126 bytes.
        let in_parallel = row.label.starts_with("parallel");
        // Without an answer JMeter counts the text of its exception as bytes, and the Debug Sampler
        // lists variables of JMeter itself.
        if !row.code.starts_with("Non HTTP") && !row.label.starts_with("debug") {
            line.bytes += if in_parallel { 0 } else { row.bytes };
            line.sent += if parts { 0 } else { row.sent_bytes };
        }
    });
    read.expect("results");
    lines
}

/// Requests with the same boundary of their parts.
fn without_boundaries(log: &[String]) -> Vec<String> {
    let replaced = |line: &String| {
        let boundary = line.split_once("boundary=").map(|(_, rest)| rest.split([';', ' ']).next());
        boundary.flatten().map_or(line.clone(), |boundary| line.replace(boundary, "BOUNDARY"))
    };
    log.iter().map(replaced).collect()
}

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/plans")
}

/// What JMeter gives, and what reached the server.
fn by_jmeter(plan: &Path, properties: &[(String, String)]) -> Lines {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results.jtl");
    oracle::run(plan, &results, properties);
    lines(&fs::read(results).expect("results"))
}

fn by_weir(plan: &Path, properties: &[(String, String)], more: &[&str]) -> (Lines, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results.jtl");
    let mut args: Vec<String> =
        properties.iter().map(|(name, value)| option(name, value)).collect();
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    args.extend(["--json".to_owned(), "--jtl".to_owned(), text(&results), text(plan)]);
    let args: Vec<&str> =
        ["lab", "run"].iter().chain(more).copied().chain(args.iter().map(String::as_str)).collect();
    let output = weir(folder.path(), &args);
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let result = serde_json::from_str(last);
    let result = result.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (lines(&fs::read(results).expect("results")), result)
}

/// A property as an option; one of the system has its `-D`.
fn option(name: &str, value: &str) -> String {
    let kind = if name.starts_with("-D") { "" } else { "-J" };
    format!("{kind}{name}={value}")
}

/// Runs a plan made in a test with both; `files` are beside it.
fn compare_files(name: &str, plan: &str, files: &[(&str, &[u8])]) {
    if JMETER.is_some() {
        compare(&oracle::place(name, plan, files), &[], &[]);
    }
}

/// Runs a plan of the folder `plans` with both.
fn compare_known(name: &str, more: &[(&str, &str)]) {
    if JMETER.is_some() {
        compare(&oracle::folder().join(name), more, &[]);
    }
}

/// Runs a plan with both, each on a server of its own, and compares.
fn compare(plan: &Path, more: &[(&str, &str)], options: &[&str]) {
    let properties = |server: &Server| {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let port = [("port".to_owned(), server.port.to_string())];
        port.into_iter().chain(more).collect::<Vec<_>>()
    };
    let (theirs, ours) = (Server::start(), Server::start());
    let expected = by_jmeter(plan, &properties(&theirs));
    let (found, result) = by_weir(plan, &properties(&ours), options);
    let mut wrong = different((&expected, &theirs), (&found, &ours));
    let log = |server: &Server| -> Vec<String> {
        let log: Vec<String> = server.take_log().iter().map(|l| without_port(server, l)).collect();
        without_boundaries(&log)
    };
    let (theirs_log, ours_log) = (log(&theirs), log(&ours));
    // The order of a single user is the same, except of random steps.
    if more.contains(&("users", "1")) {
        let fixed = |line: &&String| !line.contains("random");
        let theirs = theirs_log.iter().filter(fixed);
        let pairs = theirs.zip(ours_log.iter().filter(fixed));
        if let Some((theirs, ours)) = pairs.into_iter().find(|(theirs, ours)| theirs != ours) {
            wrong.push(format!("JMeter sent {theirs}, weir {ours}"));
        }
    }
    let is_exact = |line: &&String| !line.contains("?about") && !line.contains("/slow/");
    for line in theirs_log.iter().filter(is_exact) {
        let times = |log: &[String]| log.iter().filter(|other| *other == line).count();
        let (theirs, ours) = (times(&theirs_log), times(&ours_log));
        if theirs != ours {
            wrong.push(format!("JMeter sent {theirs}×, weir {ours}×: {line}"));
        }
    }
    for line in &ours_log {
        if !theirs_log.contains(line) {
            wrong.push(format!("only weir sent: {line}"));
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} {more:?}\n{}", plan.display(), wrong.join("\n"));
    assert_eq!(result["interrupted"], json!(0));
    assert!(result["samples"].as_u64() > Some(0), "also of a plan that ends itself: {result}");
}

/// A text without the port of the server.
fn without_port(server: &Server, text: &str) -> String {
    text.replace(&server.port.to_string(), "PORT")
}

/// Differences of samples, each with its server. Counts of labels that start with `about` depend on times.
fn different(
    (expected, theirs): (&Lines, &Server),
    (found, ours): (&Lines, &Server),
) -> Vec<String> {
    let mut wrong = Vec::new();
    for label in expected.keys().chain(found.keys().filter(|label| !expected.contains_key(*label)))
    {
        let (expected, found) = (expected.get(label), found.get(label));
        let shown = |line: Option<&Line>, server: &Server| {
            line.map(|line| without_port(server, &format!("{line:?}")))
        };
        let both = (shown(expected, theirs), shown(found, ours));
        let is_same = match (expected, found) {
            (Some(expected), Some(found)) if label.starts_with("about") => {
                found.count.abs_diff(expected.count) * 2 <= expected.count
            }
            _ => both.0 == both.1,
        };
        if !is_same {
            wrong.push(format!("{label}\n  JMeter {:?}\n  weir   {:?}", both.0, both.1));
        }
    }
    wrong
}

/// Runs a generated plan with both, with one thread and with three; `files` are beside it, as are those of
/// the folder `plans`.
fn compare_text(name: &str, plan: &str, files: &[(&str, &[u8])]) {
    if JMETER.is_some() {
        let path = oracle::place(name, plan, files);
        compare(&path, &[("users", "1")], &[]);
        compare(&path, &[("users", "3")], &[]);
    }
}

/// Runs a plan with elements of plugins with both.
fn compare_plugins(name: &str, plan: &str) {
    if WITH_PLUGINS.is_some() {
        compare(&oracle::place(name, plan, &[]), &[("users", "2")], &[]);
    }
}

/// Runs a plan with scripts with both, likewise.
fn compare_scripts(name: &str, plan: &str, files: &[(&str, &[u8])]) {
    let Some(home) = JMETER.as_deref() else { return };
    let path = oracle::place(name, plan, files);
    let options = ["--jmeter", home.to_str().expect("text")];
    for users in ["1", "3"] {
        compare(&path, &[("users", users)], &options);
    }
}

#[test]
fn a_plan_is_checked_without_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, plan: &str, args: &[&str]| {
        fs::write(folder.path().join(name), plan).expect("written");
        let output = weir(folder.path(), &[&["lab", "check"], args, &[name]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let sampler = elements::get("ask");
    let fine = elements::plan(&elements::group("Users", "1", "1", &[], &sampler));
    let (code, text, _) = check("fine.jmx", &fine, &["-Jport=1"]);
    assert_eq!((code, text.trim()), (Some(0), "fine.jmx: valid, 1 thread group"));

    let script = elements::el("JSR223Sampler", "script", &[], "");
    let wrong = elements::plan(&elements::group("Users", "1", "1", &[], &script.repeat(2)));
    let (code, _, said) = check("wrong.jmx", &wrong, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("JSR223Sampler `script`") && said.contains("2 errors"), "{said}");
    let (code, text, _) = check("wrong.jmx", &wrong, &["--json"]);
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (code, &found["ok"], &found["findings"][1]["severity"]),
        (Some(2), &json!(false), &json!("error"))
    );
    let (code, text, said) = check("wrong.jmx", &wrong, &["--lenient"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("skipped: ") && text.contains("valid"), "{said}");
}

#[test]
fn an_http_post_in_the_style_of_wso2() {
    compare_known("http-post.jmx", &[("users", "3"), ("loops", "20")]);
    compare_known("http-post.jmx", &[("size", "1024B"), ("path", "/text")]);
}

#[test]
fn a_web_shop() {
    compare_known("web-shop.jmx", &[]);
}

#[test]
fn every_assertion() {
    compare_known("assertions.jmx", &[]);
}

#[test]
fn every_element() {
    compare_known("elements.jmx", &[]);
}

#[test]
fn tables_are_those_that_jmeter_makes_of_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |start: u64, elapsed: u64, label: &str, success: bool| {
        format!("{start},{elapsed},{label},200,OK,T 1-1,text,{success},,1024,512,1,1,u,1,0,0\n")
    };
    let rows =
        row(1_000, 100, "a", true) + &row(1_100, 300, "b", false) + &row(1_400, 100, "a", true);
    fs::write(folder.path().join("r.jtl"), jtl::HEADER.to_owned() + &rows).expect("written");
    let print = |args: &[&str]| {
        let output = weir(folder.path(), args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        print(&["lab", "report", "--csv", "summary", "r.jtl"]),
        "Label,# Samples,Average,Min,Max,Std. Dev.,Error %,Throughput,Received KB/sec,Sent KB/sec,\
         Avg. Bytes\na,2,100,100,100,0.00,0.000%,4.00000,4.00,2.00,1024.0\n\
         b,1,300,300,300,0.00,100.000%,3.33333,3.33,1.67,1024.0\n\
         TOTAL,3,166,100,300,94.28,33.333%,6.00000,6.00,3.00,1024.0\n"
    );
    assert!(print(&["lab", "report", "r.jtl"]).contains("90% Line"));
}

#[test]
fn all_mistakes_of_a_plan_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = "<jmeterTestPlan><hashTree>\n<TestPlan/>\n<hashTree><ThreadGroup testname=\"T\"/>\n\
                <hashTree>\n<JDBCSampler testname=\"i\"/><hashTree/>\n<JSR223Sampler \
                testname=\"s\"/><hashTree/></hashTree></hashTree></hashTree></jmeterTestPlan>";
    fs::write(folder.path().join("p.jmx"), plan).expect("written");
    let output = weir(folder.path(), &["lab", "run", "p.jmx"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "p.jmx: line 5: JDBCSampler `i`: the Lab does not support this element (`--lenient` skips it)\n\
         p.jmx: line 6: JSR223Sampler `s`: scripts need the libraries of JMeter: `--jmeter DIR`, or JMETER_HOME \
         (`--lenient` skips it)\n"
    );
}

#[test]
fn a_plan_leaves_results_and_a_report_behind_and_can_be_compared() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plans().join("http-post.jmx");
    let port = format!("-Jport={}", server.port);
    let run = |out: &str, more: &[&str]| {
        let plan = plan.to_str().expect("text");
        let args = ["lab", "run", plan, &port, "-Jusers=2", "-Jloops=50", "--out", out, "--json"];
        let output = weir(folder.path(), &[&args, more].concat());
        let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
        let result: Value = serde_json::from_str(&last.expect("a line")).expect("JSON");
        (output, result)
    };
    let (output, result) = run("one", &["-Jtoken.secret=hidden-value"]);
    assert_eq!(result["folder"], "one", "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    let summary: Value = serde_json::from_str(&read("one/summary.json")).expect("JSON");
    let total = &summary["cells"][0]["labels"][0];
    assert_eq!((&total["samples"], &summary["verdict"]), (&result["samples"], &result["verdict"]));
    assert!(read("one/report.html").contains("http-post"));
    let described = read("one/run.json");
    assert!(described.contains("-Jtoken.secret=***") && !described.contains("hidden-value"));
    assert!(read("one/events.jsonl").contains("round 1"));

    let (_, compared) = run("two", &["--baseline", "one"]);
    let summary: Value = serde_json::from_str(&read("two/summary.json")).expect("JSON");
    assert!(summary["comparison"].is_object(), "{summary}");
    assert_eq!(summary["verdict"], compared["verdict"]);
    let again = weir(folder.path(), &["lab", "run", plan.to_str().expect("text"), "--out", "one"]);
    assert_eq!(again.status.code(), Some(2), "1 is a verdict");
    assert!(String::from_utf8_lossy(&again.stderr).contains("already has results"));
}
