//! Commands as people use them: contexts, parts of ids, misspelt options, colours, durations.

use crate::admin_api::{command, data, first_token, id, tokens};
use crate::harness::{self, Server, Weir, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A weir that records; `more` is further configuration.
fn start(more: &str) -> Server {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\ntracker: {enabled: true}\n\
        apis: {all: {base: /, routes: [{get: /fixed, reply: {text: fixed}}, \
        {get: /failed, reply: {status: 503, text: no}}]}}\n";
    Weir::new(&format!("{config}{more}")).start()
}

/// `weir` in an empty folder that is also the user's home.
fn weir(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(home).env("HOME", home);
    for name in ["XDG_CONFIG_HOME", "WEIR_ADMIN", "WEIR_TOKEN", "WEIR_CONTEXT", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

fn text(output: &Output) -> (bool, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_option_precedes_the_environment_and_that_the_context() {
    let (one, two) = (start(""), start(""));
    let home = tempfile::tempdir().unwrap();
    let url = |server: &Server| format!("http://{}", server.admin.unwrap());
    std::fs::write(home.path().join("one.token"), first_token(&one)).unwrap();
    let run = |args: &[&str]| text(&weir(home.path()).args(args).output().unwrap());
    let done = |args: &[&str]| {
        let (ok, out, err) = run(args);
        assert!(ok, "{args:?}: {err}");
        out
    };
    done(&["context", "add", "one", "--admin", &url(&one), "--token-file", "one.token", "--use"]);
    let mut add = weir(home.path());
    add.args(["context", "add", "two", "--admin", &url(&two), "--token-stdin"]);
    harness::run(&mut add, first_token(&two).as_bytes());
    let file = home.path().join(".config/weir/contexts.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listed = done(&["context", "list"]);
    assert!(listed.contains("*     one") && listed.contains("stored"), "{listed}");
    assert!(!listed.contains("wadm_") && !done(&["context", "list", "--json"]).contains("wadm_"));

    // A token's name tells which server responds.
    let named = |server: &Server, name: &str| {
        let (ok, _, err) = command(server, &first_token(server), &["token", "new", name]);
        assert!(ok, "{err}");
    };
    named(&one, "of-one");
    named(&two, "of-two");
    let list = &["token", "list"];
    assert!(done(list).contains("of-one"));
    assert!(done(&["token", "list", "--context", "two"]).contains("of-two"));
    let environment = |name: &str, value: &str, args: &[&str]| {
        let mut command = weir(home.path());
        command.args(args).env(name, value).env("WEIR_TOKEN", first_token(&two));
        text(&command.output().unwrap()).1
    };
    assert!(environment("WEIR_ADMIN", &url(&two), list).contains("of-two"));
    assert!(environment("WEIR_CONTEXT", "two", list).contains("of-two"));
    let option = ["token", "list", "--context", "one", "--token-file", "one.token"];
    assert!(environment("WEIR_ADMIN", &url(&two), &option).contains("of-one"));
    // The token of a context is for its own listener.
    let (ok, _, err) = run(&["token", "list", "--admin", "http://192.0.2.1:9080"]);
    assert!(!ok && err.contains("no token for http://192.0.2.1:9080"), "{err}");

    done(&["context", "use", "two"]);
    assert!(done(list).contains("of-two"));
    let (ok, _, err) = run(&["context", "use", "tow"]);
    assert!(!ok && err.contains("did you mean `two`?"), "{err}");
    done(&["context", "remove", "two"]);
    assert!(!done(&["context", "list"]).contains('*'));
    let (ok, _, err) = run(&["context", "add", "x", "--admin", "gateway:9080"]);
    assert!(!ok && err.contains("http://HOST:PORT"), "{err}");
}

#[test]
fn a_part_of_an_id_stands_for_the_only_transaction_that_begins_so() {
    let server = start("");
    let tokens = tokens(&server);
    let fixed = id(&server.connect().get("/fixed"));
    let failed = id(&server.connect().get("/failed"));
    let (ok, out, err) = command(&server, &tokens[0], &["show", &failed[..30]]);
    assert!(ok && out.contains(&failed), "{err}");
    // Both began within the same day.
    let (ok, _, err) = command(&server, &tokens[0], &["show", &fixed[..4]]);
    assert!(!ok && err.contains(&fixed) && err.contains(&failed), "{err}");
    assert!(err.contains("use more digits"), "{err}");
    let (ok, _, err) = command(&server, &tokens[0], &["show", "ffffffff-0"]);
    assert!(!ok && err.contains("no transaction has an id"), "{err}");
    let (ok, _, err) = command(&server, &tokens[0], &["show", "status:404"]);
    assert!(!ok && err.contains("is not a transaction id"), "{err}");
    // Searches, also by those who may not search payloads.
    for query in [&failed[..], &failed[..30], &failed.replace('-', "")] {
        let (ok, out, err) = command(&server, &tokens[0], &["search", query]);
        assert!(ok && out.contains(&failed) && !out.contains(&fixed), "{query}: {out}{err}");
    }
    let (ok, out, err) =
        command(&server, &tokens[2], &["resolve", &failed[..30], "--as", "dismissed"]);
    assert!(ok && out.contains(&format!("{failed} dismissed")), "{err}");
    // A data folder.
    let folder = data(&server);
    drop_server(server, |dir| {
        let args = ["show", &failed[..30], "--data", folder.to_str().unwrap()];
        let (ok, out, err) = text(&harness::weir(dir, &args));
        assert!(ok && out.contains(&failed), "{err}");
    });
}

/// Stops a server and looks at what it leaves.
fn drop_server(mut server: Server, look: impl FnOnce(&Path)) {
    server.signal(harness::Signal::KILL);
    server.wait();
    look(server.dir());
}

#[test]
fn a_tail_with_a_query_shows_what_matches() {
    let server = start("");
    let tokens = tokens(&server);
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["tail", "status:>=500", "--limit", "2", "--admin"])
        .arg(format!("http://{}", server.admin.unwrap()))
        .env("WEIR_TOKEN", &tokens[0])
        .current_dir(server.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    eventually("two failures", || {
        server.connect().get("/fixed");
        server.connect().get("/failed");
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.try_wait().unwrap().is_some()
    });
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(lines[0].starts_with("TIME") && lines[0].contains("REQUEST"), "{lines:?}");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let column = lines[0].find("REQUEST").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].contains("GET /failed")), "{lines:?}");
    // Payloads need the role, and a wrong query is pointed at.
    let (ok, _, err) = command(&server, &tokens[0], &["tail", "body:quokka"]);
    assert!(!ok && err.contains("payload-viewer"), "{err}");
    let (ok, _, err) = command(&server, &tokens[1], &["tail", "stauts:500"]);
    assert!(!ok && err.contains("  stauts:500\n  ^^^^^^"), "{err}");
}

#[test]
fn misspelt_words_of_the_command_line_come_with_the_right_ones() {
    let home = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["serv"][..], "'serve'"),
        (&["check", "--jsn"], "'--json'"),
        (&["token", "lst"], "'list'"),
        (&["context", "rm"], "remove"),
        (&["search", "--limt=1"], "`--limit`"),
        (&["tail", "--jsom"], "`--json`"),
        (&["resubmit", "--wiat"], "'--wait'"),
    ] {
        let output = weir(home.path()).args(args).output().unwrap();
        let (_, _, err) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    // A negated term is a query.
    let (_, _, err) = text(&weir(home.path()).args(["search", "-method:GET"]).output().unwrap());
    assert!(err.contains("admin token"), "{err}");
}

#[test]
fn tables_have_colours_where_they_are_wanted() {
    let server = start("");
    server.connect().get("/failed");
    let search = |variables: &[(&str, &str)]| {
        let mut command = weir(server.dir());
        command.args(["search", "--admin", &format!("http://{}", server.admin.unwrap())]);
        command.envs(variables.iter().copied());
        let (ok, out, err) = text(&command.output().unwrap());
        assert!(ok, "{err}");
        out
    };
    eventually("it is found", || search(&[]).lines().count() == 2);
    let plain = search(&[]);
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.lines().nth(1).unwrap().contains('Z'), "the time zone: {plain}");
    let forced = search(&[("CLICOLOR_FORCE", "1")]);
    assert!(forced.contains("\u{1b}[31mfailed\u{1b}[0m"), "{forced:?}");
    assert!(!search(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\u{1b}'));
}

/// `script` of util-linux runs a command on a terminal of its own.
#[test]
fn tables_fit_into_the_terminal() {
    let long = "a".repeat(200);
    let config =
        format!("apis: {{all: {{base: /, routes: [{{get: /{long}, reply: {{text: a}}}}]}}}}");
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("weir.yaml"), config).unwrap();
    let command = format!("stty rows 40 cols 100; '{}' routes", env!("CARGO_BIN_EXE_weir"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(home.path()).env("TERM", "xterm");
    let Ok(output) = script.env_remove("NO_COLOR").stdin(Stdio::null()).output() else {
        println!("SKIPPED: there is no `script`");
        return;
    };
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = out.lines().find(|line| line.contains("/aaa")).unwrap_or_else(|| panic!("{out}"));
    assert!(row.contains('…') && row.trim_end().chars().count() <= 100, "{row:?}");
    assert!(out.contains("\u{1b}[1mMETHODS\u{1b}[0m"), "{out:?}");
    let piped = text(&weir(home.path()).arg("routes").output().unwrap()).1;
    assert!(piped.contains(&long), "{piped}");
}

#[test]
fn a_quota_says_in_words_when_it_is_free_and_in_numbers_to_programs() {
    let key = "sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c";
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nauth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
         plans: {{small: {{quota: {{calls: 1, per: month, rolling: true}}}}}}\n\
         consumers: {{acme: {{plan: small, api_keys: [\"{key}\"]}}}}\n\
         apis: {{all: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
    );
    let server = Weir::new(&config).start();
    let token = first_token(&server);
    let called = server.connect().request("GET", "/", &[("x-api-key", "example")], "");
    assert_eq!(called.status, 200, "{}", called.text());
    let (ok, out, err) = command(&server, &token, &["limits"]);
    assert!(ok && (out.contains("30 days") || out.contains("29 days")), "{out}{err}");
    let (_, out, _) = command(&server, &token, &["limits", "--json"]);
    let limits: Value = serde_json::from_str(out.trim()).unwrap();
    assert!(limits["quota"]["free_in_seconds"].as_u64().unwrap() > 2_000_000, "{out}");
}
