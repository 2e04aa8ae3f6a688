//! Client certificates of a keystore (Keystore Configuration), compared with JMeter: the certificate of each
//! request, as nginx sees it.

use super::elements::{el, get_with, group, list, plan, variables};
use super::{JMETER, by_jmeter, by_weir, oracle};

use crate::harness::{Certificate, RealServer, run, weir};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

const PASSWORD: &str = "s3cret of all";

/// A folder with `users.p12` and its copy in Java's format, made by keytool, and the files of nginx.
/// `None`, which is said, without a JDK.
static FILES: LazyLock<Option<tempfile::TempDir>> = LazyLock::new(|| {
    if Command::new("keytool").arg("-help").output().is_err() {
        eprintln!("SKIPPED: no keytool of a JDK");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let keytool = |args: &[&str]| {
        let mut command = Command::new("keytool");
        command.args(args).args(["-storepass", PASSWORD]).current_dir(folder.path());
        String::from_utf8(run(&mut command, b"")).expect("text")
    };
    let mut clients = String::new();
    for (alias, key) in [("Alice", "EC"), ("zoe", "RSA"), ("bob", "EC"), ("user-10", "EC")] {
        let name = format!("CN={alias}");
        let new =
            ["-genkeypair", "-alias", alias, "-dname", &name, "-keyalg", key, "-validity", "999"];
        keytool(&[&new[..], &["-keystore", "users.p12", "-storetype", "PKCS12"]].concat());
        clients += &keytool(&["-exportcert", "-rfc", "-alias", alias, "-keystore", "users.p12"]);
    }
    let copy = ["-importkeystore", "-srckeystore", "users.p12", "-srcstorepass", PASSWORD];
    keytool(&[&copy[..], &["-destkeystore", "users.jks", "-deststoretype", "JKS"]].concat());
    let server = Certificate::of("127.0.0.1");
    for (name, content) in
        [("clients.pem", clients), ("server.pem", server.cert), ("server-key.pem", server.key)]
    {
        fs::write(folder.path().join(name), content).expect("written");
    }
    Some(folder)
});

/// Keystore Configuration: preload, variable of the alias, start and end.
fn keystore([preload, alias, start, end]: [&str; 4]) -> String {
    let properties = [
        ("preload", preload),
        ("clientCertAliasVarName", alias),
        ("startIndex", start),
        ("endIndex", end),
    ];
    el("KeystoreConfig", "keys", &properties, "")
}

/// A plan with requests by HTTPS.
fn https(groups: &str) -> String {
    let defaults = [("HTTPSampler.protocol", "https")];
    plan(&(el("ConfigTestElement", "https", &defaults, "") + groups))
}

/// System properties of the keystore in a file, for both.
fn system(file: &str) -> Vec<(String, String)> {
    let path = FILES.as_ref().expect("files").path().join(file).display().to_string();
    let named = [("keyStore", path), ("keyStorePassword", PASSWORD.to_owned())];
    named.map(|(name, value)| (format!("-Djavax.net.ssl.{name}"), value)).into()
}

/// Runs a plan with properties.
type Program = dyn Fn(&Path, &[(String, String)]) -> super::Lines;

/// Runs a plan with both, each on a server of its own: the samples, and the requests with the subjects of
/// their certificates are the same, after `arrange`. Returns these.
fn compare(
    name: &str,
    plan: &str,
    properties: &[(String, String)],
    arrange: fn(&mut Vec<String>),
) -> Vec<String> {
    let (Some(files), true) = (FILES.as_ref(), JMETER.is_some()) else { return Vec::new() };
    let plan = oracle::place(name, plan, &[]);
    let once = |by: &Program| {
        let server = RealServer::nginx_of_clients(files.path());
        let port = server.addr.port().to_string();
        let all = [&[("port".to_owned(), port.clone())], properties].concat();
        let lines = format!("{:#?}", by(&plan, &all)).replace(&port, "PORT");
        let mut requests = server.requests();
        arrange(&mut requests);
        (lines, requests)
    };
    let expected = once(&|plan, all| by_jmeter(plan, all));
    let found = once(&|plan, all| by_weir(plan, all, &[]).0);
    assert_eq!(found.1, expected.1, "{name}: requests of weir, and of JMeter");
    assert_eq!(found.0, expected.0, "{name}: samples of weir, and of JMeter");
    found.1
}

/// Two requests on one connection, and two with connections of their own.
fn four(prefix: &str) -> String {
    let alone = |name: &str| {
        let properties = [("HTTPSampler.path", format!("/{prefix}/{name}"))];
        let properties = properties.each_ref().map(|(name, value)| (*name, value.as_str()));
        el("HTTPSamplerProxy", &format!("{prefix} {name}"), &properties, "")
    };
    let kept = |name: &str| get_with(&format!("{prefix} {name}"), &format!("/{prefix}/{name}"), "");
    kept("a") + &kept("b") + &alone("c") + &alone("d")
}

const NEW_USER: (&str, &str) = ("ThreadGroup.same_user_on_next_iteration", "false");

#[test]
fn certificates_take_turns() {
    if FILES.is_none() {
        return;
    }
    let turns = |users: &str, [start, end]: [&str; 2]| {
        let groups = group("new", users, "5", &[NEW_USER], &four("new"))
            + &group("same", users, "3", &[], &four("same"));
        https(&(keystore(["True", "", start, end]) + &groups))
    };
    let all = compare("keys-all", &turns("1", ["", ""]), &system("users.p12"), |_| ());
    if JMETER.is_some() {
        let subjects = ["alice", "zoe", "bob", "user-10"].map(|alias| {
            let is = |line: &&String| line.to_lowercase().contains(&format!("cn={alias}"));
            all.iter().filter(is).count()
        });
        assert!(subjects.iter().all(|count| *count >= 4), "each has an iteration: {all:#?}");
    }
    compare("keys-some", &turns("1", ["1", "2"]), &system("users.p12"), |_| ());
    compare("keys-text", &turns("1", ["x", ""]), &system("users.p12"), |_| ());
    compare("keys-users", &turns("3", ["0", "0"]), &system("users.p12"), |all| all.sort());
    let single = https(&group("new", "1", "3", &[NEW_USER], &four("new")));
    compare("keys-first", &single, &system("users.p12"), |_| ());
}

#[test]
fn the_alias_is_in_a_variable() {
    if FILES.is_none() {
        return;
    }
    let set = |value: &str| {
        let properties = [
            ("raw:", list("UserParameters.names", &["alias"])),
            (
                "raw:",
                format!(
                    "<collectionProp name=\"UserParameters.thread_values\">{}</collectionProp>",
                    list("1", &[value])
                ),
            ),
        ];
        let properties = properties.each_ref().map(|(name, value)| (*name, value.as_str()));
        el("UserParameters", "alias", &properties, "")
    };
    let one = |name: &str, alias: &str, below: &str| {
        get_with(&format!("{name} {alias}"), &format!("/{name}/{alias}"), &(set(alias) + below))
    };
    let aliases = ["bob", "alice", "Alice", "nobody", "", "zoe"];
    let each: String = aliases
        .iter()
        .map(|alias| group(&format!("of {alias}"), "1", "2", &[NEW_USER], &one("each", alias, "")))
        .collect();
    // A connection keeps its certificate; so does the next one, which resumes the session.
    let others = one("kept", "bob", "") + &one("kept", "alice", "") + &one("kept", "nobody", "");
    let changes =
        group("changes", "1", "2", &[NEW_USER], &others) + &group("stays", "1", "2", &[], &others);
    let unset = group("unset", "1", "1", &[], &get_with("unset", "/unset", ""));
    let elements = keystore(["False", "alias", "", ""]);
    let text = https(&(elements + &each + &changes + &unset));
    compare("keys-by-alias", &text, &system("users.p12"), |_| ());

    let constant = variables(&[("alias", "zoe")]) + &keystore(["True", "alias", "", ""]);
    let text = https(&(constant + &group("constant", "2", "2", &[NEW_USER], &four("constant"))));
    compare("keys-by-constant", &text, &system("users.p12"), |all| all.sort());
}

#[test]
fn plans_without_a_keystore_have_no_certificate() {
    if FILES.is_none() {
        return;
    }
    for (name, alias) in [("keys-none", ""), ("keys-none-by-alias", "alias")] {
        let elements = variables(&[("alias", "bob")]) + &keystore(["True", alias, "", ""]);
        let text = https(&(elements + &group("g", "1", "2", &[NEW_USER], &four("g"))));
        compare(name, &text, &[], |_| ());
    }
}

/// Each line of nginx says whether a session was resumed.
#[test]
fn sessions_are_resumed_by_the_same_user_only() {
    if FILES.is_none() {
        return;
    }
    let groups = group("new", "3", "2", &[NEW_USER], &four("new"))
        + &group("same", "3", "2", &[], &four("same"));
    compare("sessions", &https(&groups), &[], |all| all.sort());
}

/// What `weir lab run` says and writes about a plan with a keystore.
fn printed(folder: &Path, properties: &[(String, String)]) -> (Option<i32>, String) {
    let mut args = vec!["lab".to_owned(), "run".to_owned(), "--out".to_owned(), "out".to_owned()];
    args.extend(properties.iter().map(|(name, value)| super::option(name, value)));
    args.push("p.jmx".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = weir(folder, &args);
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    let written = fs::read_dir(folder.join("out")).into_iter().flatten().flatten();
    for entry in written {
        text += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default());
    }
    (output.status.code(), text)
}

#[test]
fn mistakes_of_a_keystore_are_named_without_its_password() {
    let Some(files) = FILES.as_ref() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let server = RealServer::nginx_of_clients(files.path());
    let port = ("port".to_owned(), server.addr.port().to_string());
    let write = |selected: [&str; 4]| {
        let elements = variables(&[("who", "eve")]) + &keystore(selected);
        let text = https(&(elements + &group("g", "1", "1", &[], &get_with("get", "/", ""))));
        fs::write(folder.path().join("p.jmx"), text).expect("written");
    };
    let mistake = |properties: Vec<(String, String)>, code: i32, expected: &str| {
        let _ = fs::remove_dir_all(folder.path().join("out"));
        let all = [vec![port.clone()], properties].concat();
        let (found, text) = printed(folder.path(), &all);
        assert_eq!(found, Some(code), "{text}");
        let text = text.replace(&files.path().display().to_string(), "DIR");
        assert!(text.contains(expected), "{expected}\n{text}");
        assert!(!text.contains("s3cret"), "{text}");
    };
    let with = |name: &str, value: &str| {
        let mut all = system("users.p12");
        all.push((format!("-Djavax.net.ssl.{name}"), value.to_owned()));
        all
    };
    write(["True", "", "", ""]);
    let element = "p.jmx: line ";
    for (properties, expected) in [
        (
            with("keyStorePassword", "s3cret"),
            "the password of the keystore `DIR/users.p12` is wrong (`-Djavax.net.ssl.keyStorePassword`)",
        ),
        (
            with("keyStore", "missing.p12"),
            "KeystoreConfig `keys`: `missing.p12` cannot be read: No such file",
        ),
        (
            with("keyStoreType", "PKCS11"),
            "of the type PKCS12, not `DIR/users.p12` of the type `PKCS11`",
        ),
        (
            system("users.p12")[..1].to_vec(),
            "the keystore `DIR/users.p12` needs its password: `-Djavax.net.ssl.keyStorePassword=PASSWORD`",
        ),
        (
            system("users.jks"),
            "`DIR/users.jks` is a JKS keystore, and the Lab reads PKCS#12: convert it by `keytool -importkeystore -srckeystore DIR/users.jks -destkeystore DIR/users.p12 -deststoretype PKCS12`",
        ),
        (system("clients.pem"), "`DIR/clients.pem` cannot be read as a PKCS#12 keystore"),
    ] {
        mistake(properties.clone(), 2, element);
        mistake(properties, 2, expected);
    }
    let misspelt = vec![("-Djavax.net.ssl.keystorePassword".to_owned(), PASSWORD.to_owned())];
    mistake(
        misspelt,
        2,
        "the Lab does not have the system property `javax.net.ssl.keystorePassword`",
    );
    write(["True", "", "7", ""]);
    mistake(system("users.p12"), 2, "it has 4, and the first one has the index 0");
    // Only a run shows an unknown alias.
    write(["True", "who", "", ""]);
    let expected =
        "the keystore has no key with the alias `eve`: it has `alice`, `zoe`, `bob`, `user-10`";
    mistake(system("users.p12"), 3, expected);
    let run = fs::read_to_string(folder.path().join("out/run.json")).expect("a run");
    assert!(run.contains("-Djavax.net.ssl.keyStorePassword=***"), "{run}");
}
