//! Overrides, includes, watch lists, bounds, secrets: what takes more than one file to show.

use std::path::{Path, PathBuf};
use weir_config::Source;
use weir_document::finding::{Findings, Severity};
use weir_gateway::configuration::{Configuration, load, load_text};

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    std::fs::write(&path, text).expect("writable");
    path
}

fn with_sets(path: &Path, sets: &[(&str, &str)]) -> Result<Configuration, Findings> {
    let overrides = sets.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
    load(&Source { path: path.to_owned(), overrides, ..Default::default() })
}

const MAIN: &str = "listen: [127.0.0.1:1000]\ninclude: more.yaml\n";
const MORE: &str = "apis: {a: {base: /, routes: [{get: /, reply: {text: x}}]}}\n";

#[test]
fn overrides_change_what_is_written_and_add_what_is_not() {
    let folder = tempfile::tempdir().expect("folder");
    write(folder.path(), "weir.yaml", MAIN);
    write(folder.path(), "more.yaml", MORE);
    let sets = [
        ("limits.body", "5MiB"),
        ("listen[0]", "{addr: 127.0.0.1:2000}"),
        ("listen[1]", "\"[::1]:3000\""),
        ("apis.a.base", "/b"),
        ("apis.a.routes.0.reply.text", "y"),
        ("workers", "7"),
    ];
    let config = with_sets(folder.path(), &sets).expect("loads").config;
    assert_eq!(config.limits.body, 5 << 20);
    assert_eq!(config.listen[0].addr.port(), 2000);
    assert_eq!(config.listen[1].addr.port(), 3000);
    assert_eq!(config.workers, 7);
    // `a` is defined in an included file, and is changed there.
    assert_eq!(config.apis.len(), 1);
    assert_eq!(config.apis[0].base, "/b");
    assert!(format!("{:?}", config.apis[0].routes[0].handler).contains("[121]"));
}

#[test]
fn a_bad_override_is_a_finding_that_names_it() {
    let folder = tempfile::tempdir().expect("folder");
    write(folder.path(), "weir.yaml", "listen: [127.0.0.1:1000]\n");
    let sets = [
        ("limits..body", "5MiB"),
        ("listen[5].addr", "x"),
        ("listen.first", "x"),
        ("limits.bdoy", "5MiB"),
        ("limits.body", "5"),
        ("workers", "[1"),
    ];
    let findings = with_sets(folder.path(), &sets).expect_err("refused");
    let found: Vec<(String, &str)> =
        findings.list.iter().map(|f| (f.file.display().to_string(), f.code)).collect();
    let expected = [
        ("--set limits..body", "bad-override"),
        ("--set listen[5].addr", "bad-override"),
        ("--set listen.first", "bad-override"),
        ("--set limits.bdoy", "unknown-key"),
        ("--set limits.body", "missing-unit"),
        ("--set workers", "syntax"),
    ];
    assert_eq!(found, expected.map(|(file, code)| (file.to_owned(), code)));
    let shown = findings.render(false);
    assert!(shown.contains("limits.body=5"), "{shown}");
}

#[test]
fn every_file_read_or_looked_for_is_watched() {
    let folder = tempfile::tempdir().expect("folder");
    let main = write(
        folder.path(),
        "weir.yaml",
        "include: [more.yaml, nowhere.yaml]\napis: {b: {base: /b, routes: [{get: /, reply: {text: file:x.txt}}]}}\n",
    );
    let more = write(folder.path(), "more.yaml", MORE);
    let text = write(folder.path(), "x.txt", "x\n");
    let nowhere = folder.path().join("nowhere.yaml");
    let findings = with_sets(folder.path(), &[]).expect_err("refused");
    let mut files = findings.files.clone();
    files.sort();
    assert_eq!(files, [more.clone(), nowhere.clone(), main.clone(), text.clone()]);
    write(folder.path(), "nowhere.yaml", "");
    let config = with_sets(folder.path(), &[]).expect("loads").config;
    let mut files = config.sources.clone();
    files.sort();
    assert_eq!(files, [more, nowhere, main, text]);
}

#[test]
fn a_missing_main_file_is_a_finding_without_a_line() {
    let folder = tempfile::tempdir().expect("folder");
    let findings = with_sets(folder.path(), &[]).expect_err("refused");
    assert_eq!(findings.list.len(), 1);
    assert_eq!((findings.list[0].code, findings.list[0].line), ("missing-file", 0));
    assert_eq!(findings.files, [folder.path().join("weir.yaml")]);
    assert!(findings.render(false).contains("weir.yaml"));
}

#[test]
fn no_secret_is_shown() {
    let folder = tempfile::tempdir().expect("folder");
    let text = "\
upstreams:
  netty: {targets: ['http://127.0.0.1:1'], auth: {bearer: 'pass word', extra: x}}
  other: {targets: ['http://127.0.0.1:1'], auth: {basic: {user: u:u, password: hunter2}}}
auth: {corp: {jwt: {algorithms: [HS256], key: tooshort}}}
consumers: {a: {api_keys: [a-key-itself], plan: x}}
apis: {a: {base: /, response: {headers: {set: {Authorization: Bearer-abc, x: }}}, routes: [{get: /, proxy: netty}]}}
";
    write(folder.path(), "weir.yaml", text);
    let sets = [
        ("upstreams.netty.auth.bearer", "opensesame"),
        ("listen[0].tls", "{cert: c, key: sesame2}"),
    ];
    let findings = with_sets(folder.path(), &sets).expect_err("refused");
    let all = format!(
        "{}{findings:?}{}",
        findings.render(false),
        serde_json::to_string(&findings.list).expect("serialises")
    );
    assert!(all.contains("weak-secret") && all.contains("password: *******"), "{all}");
    for secret in ["hunter2", "tooshort", "opensesame", "sesame2", "a-key-itself", "Bearer-abc"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[test]
fn findings_are_json() {
    let findings = load_text("weir.yaml", "workers: 0\n").expect_err("refused");
    let json = serde_json::to_value(&findings.list).expect("serialises");
    assert_eq!(json[0]["code"], "bad-value");
    assert_eq!(json[0]["severity"], "error");
    assert_eq!((&json[0]["line"], &json[0]["column"]), (&1.into(), &10.into()));
    assert_eq!(json[0]["file"], "weir.yaml");
}

#[test]
fn a_text_alone_reads_nothing() {
    let text = "include: a.yaml\ndata: ${env:CARGO_PKG_NAME}\napis: {a: {base: /, routes: [{get: /, reply: {text: file:/etc/hostname}}]}}\n";
    let findings = load_text("weir.yaml", text).expect_err("refused");
    let codes: Vec<&str> = findings.list.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["include", "undefined-env", "missing-file"]);
    assert!(findings.files.is_empty());
    let https = "upstreams: {a: {targets: ['https://x']}}\n";
    assert!(load_text("weir.yaml", https).is_ok());
}

#[test]
fn a_variable_cannot_name_a_file() {
    // PWD or not: what matters is that the text begins with `file:` only after substitution.
    let folder = tempfile::tempdir().expect("folder");
    write(folder.path(), "weir.yaml", "data: \"${env:CARGO_PKG_NAME}file:x\"\n");
    assert!(with_sets(folder.path(), &[]).is_ok());
}

#[test]
fn ten_thousand_routes_load() {
    let mut text = String::from("apis:\n  a:\n    base: /\n    routes:\n");
    for i in 0..10_000 {
        text.push_str(&format!(
            "      - {{get: \"/r{i}/{{id}}/x\", reply: {{json: {{n: {i}}}}}}}\n"
        ));
    }
    let Configuration { config, findings, .. } = load_text("weir.yaml", &text).expect("loads");
    assert_eq!(config.apis[0].routes.len(), 10_000);
    assert!(findings.list.is_empty());
}

#[test]
fn findings_are_bounded() {
    let text: String = (0..2_000).map(|i| format!("key{i}: x\n")).collect();
    let findings = load_text("weir.yaml", &text).expect_err("refused");
    assert_eq!(findings.list.len(), 501);
    let last = findings.list.last().expect("one");
    assert_eq!((last.code, last.severity), ("too-many", Severity::Error));
    assert!(last.message.starts_with("1500 "), "{}", last.message);
}

#[test]
fn hostile_texts_end() {
    for text in [
        "[".repeat(100_000),
        "{a: ".repeat(50_000),
        "- ".repeat(50_000),
        format!("a: &a [{}]\nb: [*a, *a]", "*a,".repeat(10)),
        "\u{0}".to_owned(),
        "a: \"\\ud800\"".to_owned(),
        "? - a\n: b".to_owned(),
        "%YAML 3.0\n---\na".to_owned(),
        "!!binary x".to_owned(),
        "a: !!int x".to_owned(),
    ] {
        let _ = load_text("weir.yaml", &text);
    }
}

#[test]
fn what_needs_a_restart_is_said() {
    let load = |text| load_text("weir.yaml", text).expect("loads").config;
    let old = load("workers: 2\nlisten: [127.0.0.1:1]\n");
    let same = load("workers: 2\nlisten: [127.0.0.1:1]\nlimits: {body: 1MiB}\n");
    assert!(old.needs_restart(&same).is_empty());
    let new = load(
        "workers: 3\nlisten: [{addr: 127.0.0.1:1, tls: self-signed}]\nadmin: {addr: 127.0.0.1:9}\ndata: x\n",
    );
    let findings = old.needs_restart(&new);
    assert!(findings.iter().all(|f| f.code == "needs-restart" && f.severity == Severity::Error));
    let keys: Vec<&str> =
        findings.iter().map(|f| f.message.split('`').nth(1).expect("key")).collect();
    assert_eq!(keys, ["listen", "admin", "data", "workers"]);
    let new = load(
        "workers: 2\nlisten: [127.0.0.1:1]\njournal: {disk: 1GiB, durability: disk}\n\
         tracker: {enabled: true, index: none, keep: {failed: 1d}, keys: {a: $.a}, capture: meta}\n",
    );
    let findings = old.needs_restart(&new);
    let keys: Vec<&str> =
        findings.iter().map(|f| f.message.split('`').nth(1).expect("key")).collect();
    let expected = ["disk", "index", "durability", "keep", "keys", "enabled"];
    let last: Vec<&str> = keys.iter().map(|key| key.rsplit('.').next().expect("a key")).collect();
    assert_eq!(last, expected);
}

#[test]
fn there_are_at_most_sixteen_business_keys() {
    let load = |count: usize| {
        let keys: Vec<String> = (0..count).map(|n| format!("k{n}: $.a")).collect();
        load_text("weir.yaml", &format!("tracker: {{keys: {{{}}}}}\n", keys.join(", ")))
    };
    assert_eq!(load(16).expect("loads").config.tracker.keys.names().count(), 16);
    let findings = load(17).expect_err("refused");
    assert_eq!(findings.list.iter().map(|f| f.code).collect::<Vec<_>>(), ["too-many"]);
}

#[test]
fn includes_are_bounded_and_read_once() {
    let folder = tempfile::tempdir().expect("folder");
    write(folder.path(), "weir.yaml", "include: [a/**/*.yaml, a/x.yaml]\n");
    write(folder.path(), "a/x.yaml", "include: b/y.yaml\nupstreams: {x: {targets: [http://x]}}\n");
    write(folder.path(), "a/b/y.yaml", "upstreams: {y: {targets: [http://y]}}\n");
    write(folder.path(), "a/b/.z.yaml", "never: read\n");
    let config = with_sets(folder.path(), &[]).expect("loads").config;
    let mut names: Vec<&str> = config.upstreams.iter().map(|u| u.name.as_str()).collect();
    names.sort();
    assert_eq!(names, ["x", "y"]);

    for i in 0..12 {
        write(folder.path(), &format!("c{i}.yaml"), &format!("include: c{}.yaml\n", i + 1));
    }
    let findings = with_sets(&folder.path().join("c0.yaml"), &[]).expect_err("refused");
    assert_eq!(findings.list.iter().map(|f| f.code).collect::<Vec<_>>(), ["include"]);
    assert!(findings.files.len() < 12);
}

#[test]
fn what_is_no_file_or_no_text_is_a_finding() {
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("weir.yaml"), b"a: \xff\n").expect("writable");
    let findings = with_sets(folder.path(), &[]).expect_err("refused");
    assert_eq!((findings.list[0].code, findings.list.len()), ("bad-file", 1));
    let findings = with_sets(Path::new("/dev/zero"), &[]).expect_err("refused");
    assert_eq!((findings.list[0].code, findings.list.len()), ("bad-file", 1));
}

#[test]
fn messages_neither_break_lines_nor_steer_the_terminal() {
    let findings = load_text("weir.yaml", "\"a\\nb\\e[31m\": 1\n").expect_err("refused");
    assert_eq!(findings.list[0].message, "unknown key `a\\nb\\u{1b}[31m` in the configuration");
    let long = format!("{}: 1\n", "k".repeat(1000));
    let findings = load_text("weir.yaml", &long).expect_err("refused");
    assert!(findings.list[0].message.chars().count() <= 601);
}

#[test]
fn secrets_of_several_lines_are_not_shown() {
    for key in [
        "|\n      geheim",
        "|\n      geheim\n\n",
        "|2\n        geheim\n       geheim",
        ">\n      geheim\n      geheim",
        ">-\n      geheim\n\n      geheim\n",
        "geheim\n      geheim",
        "\"geheim\n      geheim\"",
        "'geheim\n      geheim'",
        "\n      geheim\n      geheim",
    ] {
        for (behind, others) in [("", 0), ("\n     nonsense: 1\n", 1)] {
            let before = "apis: {}\nauth:\n  corp:\n    jwt:\n     algorithms: [HS256]\n";
            let text = format!("{before}     key: {key}{behind}");
            let findings = load_text("weir.yaml", &text).expect_err("refused");
            let shown = format!("{}{findings:?}", findings.render(false));
            assert!(shown.contains("weak-secret"), "{text}\n{shown}");
            assert!(!shown.contains("geheim"), "{text}\n{shown}");
            // And what stands around them is.
            assert_eq!(shown.matches("|      nonsense: ").count(), others, "{text}\n{shown}");
            assert!(shown.contains("algorithms: [HS256]"), "{text}\n{shown}");
        }
    }
}

/// Whether there is something to find depends on who runs this.
#[test]
fn agents_that_run_as_root_without_being_told_to_are_found() {
    let folder = tempfile::tempdir().expect("folder");
    let found = |pool: &str| -> Vec<&'static str> {
        let path = write(
            folder.path(),
            "weir.yaml",
            &format!(
                "pools: {{p: {{command: /bin/true{pool}}}}}\napis: {{a: {{base: /, routes: [{{get: /, pool: p}}]}}}}\n"
            ),
        );
        let findings = with_sets(&path, &[]).expect("loads").findings;
        findings.list.iter().map(|finding| finding.code).collect()
    };
    let root = nix::unistd::geteuid().is_root();
    assert_eq!(found(""), if root { vec!["agents-as-root"] } else { Vec::new() });
    assert!(found(", user: 0").is_empty());
}
