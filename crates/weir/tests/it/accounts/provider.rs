//! Sign-in with oidc-provider, an identity provider of npm (`make setup` installs it).

use crate::admin_api::{ask, first_token, get};
use crate::harness::{Server, Weir};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The provider, until it is dropped.
struct Provider {
    child: Child,
    /// The provider ends if nobody can read what it prints.
    _lines: std::io::Lines<BufReader<ChildStdout>>,
    issuer: String,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A weir and its provider.
struct Signing {
    server: Server,
    provider: Provider,
}

impl Signing {
    /// `None`, and a line that says so, without Node or the package.
    fn start() -> Option<Self> {
        let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
        let has_node = Command::new("node").arg("--version").output().is_ok();
        if !has_node || !console.join("node_modules/oidc-provider").exists() {
            println!("SKIPPED: Node and `npm ci` in console (oidc-provider) are needed");
            return None;
        }
        let config = "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\ntracker: {enabled: true}\n\
             apis: {orders: {base: /orders, routes: [{get: /, reply: {text: hi}}]}}\n";
        let server = Weir::new(config).start();
        let origin = format!("http://{}", server.admin.unwrap());
        let mut child = Command::new("node")
            .arg(console.join("e2e/provider.mjs"))
            .arg(&origin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| {
            let line = line.ok()?;
            serde_json::from_str::<Value>(&line).ok()
        });
        let issuer = line.unwrap()["issuer"].as_str().unwrap().to_owned();
        let provider = Provider { child, _lines: lines, issuer };
        let signing = Self { server, provider };
        // The provider needs the address of weir, so weir learns about the provider by a reload.
        signing.configure(config, "12h");
        Some(signing)
    }

    fn configure(&self, config: &str, login: &str) {
        let issuer = &self.provider.issuer;
        let oidc = format!(
            "{config}admin:\n  addr: \"127.0.0.1:0\"\n  oidc:\n    issuer: \"{issuer}\"\n    name: Test\n    \
             client_id: weir\n    client_secret: \"a secret of the client with : and &\"\n    \
             login: {login}\n    roles:\n      - {{group: ops, role: operator}}\n      \
             - {{group: support, role: payload-viewer, apis: orders, depth: metadata}}\n",
        );
        std::fs::write(self.server.dir().join("weir.yaml"), oidc).unwrap();
        let path = "/v1/configuration/reload";
        let reload = ask(&self.server, "POST", path, Some(&first_token(&self.server)), "");
        assert_eq!(reload.json()["taken"], true, "{}", reload.text());
    }

    fn origin(&self) -> String {
        format!("http://{}", self.server.admin.unwrap())
    }
}

/// A browser without scripts: curl with its cookies.
struct Browser(tempfile::TempDir);

/// What a browser shows.
#[derive(Debug)]
struct Page {
    url: String,
    text: String,
    /// The last `Location`.
    location: String,
    status: u16,
}

impl Browser {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, url: &str, rest: &[&str]) -> Page {
        let (jar, head) = (self.file("jar"), self.file("head"));
        let output = Command::new("curl")
            .args(["-sS", "-L", "-w", "\n%{http_code} %{url_effective}"])
            .args(["-b".as_ref(), jar.as_os_str(), "-c".as_ref(), jar.as_os_str()])
            .args(["-D".as_ref(), head.as_os_str()])
            .args(rest)
            .arg(url)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let (text, last) = text.rsplit_once('\n').unwrap();
        let (status, url) = last.split_once(' ').unwrap();
        let head = std::fs::read_to_string(head).unwrap();
        let location = head.lines().rev().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        let location = location.unwrap_or_default();
        Page {
            url: url.to_owned(),
            text: text.to_owned(),
            location,
            status: status.parse().unwrap(),
        }
    }

    /// Signs in at the provider, from its first page on.
    fn authenticate(&self, page: &Page, account: &str) -> Page {
        let login = format!("login={account}");
        let rest =
            ["--data-urlencode", "prompt=login", "--data-urlencode", &login, "-d", "password=x"];
        let consent = self.open(&page.url, &rest);
        assert_eq!(consent.status, 200, "{consent:?}");
        self.open(&consent.url, &["-d", "prompt=consent"])
    }

    /// Signs in to weir; the last page, of which the fragment is in `location`.
    fn sign_in(&self, signing: &Signing, account: &str) -> Page {
        let start = format!("{}/v1/oidc/start?from=/console/tracker", signing.origin());
        let login = self.open(&start, &[]);
        assert!(login.url.starts_with(&signing.provider.issuer), "{login:?}");
        self.authenticate(&login, account)
    }

    fn redeem(&self, signing: &Signing, page: &Page) -> Page {
        let code = page.location.split_once("#sign-in=").map_or("", |(_, code)| code);
        let body = json!({"code": code}).to_string();
        self.open(&format!("{}/v1/oidc/session", signing.origin()), &["--json", &body])
    }
}

#[test]
fn an_account_signs_in_with_the_role_of_its_group_and_out_again() {
    let Some(signing) = Signing::start() else { return };
    let (server, origin) = (&signing.server, signing.origin());
    let ways = ask(server, "GET", "/v1/oidc", None, "");
    assert_eq!(ways.json(), json!({"provider": "Test"}));
    let browser = Browser::new();
    let back = browser.sign_in(&signing, "ann+support");
    assert!(back.location.starts_with("/console/tracker#sign-in="), "{back:?}");
    // The code of somebody else's browser signs nobody in, and is used up.
    assert_eq!(Browser::new().redeem(&signing, &back).status, 401);
    assert_eq!(browser.redeem(&signing, &back).status, 401);
    // The provider has a session: it signs in without a page.
    let again = browser.open(&format!("{origin}/v1/oidc/start"), &[]);
    assert!(again.location.starts_with("/console/#sign-in="), "{again:?}");
    let session = browser.redeem(&signing, &again);
    let session: Value = serde_json::from_str(&session.text).unwrap();
    assert_eq!((&session["name"], &session["role"]), (&json!("ann"), &json!("payload-viewer")));
    assert_eq!(
        session["scope"],
        json!({"apis": ["orders"], "depth": "metadata", "resubmit": true})
    );
    assert_eq!(browser.redeem(&signing, &again).status, 401, "a code is good once");
    let csrf = format!("weir-csrf-token: {}", session["csrf_token"].as_str().unwrap());
    let with = ["-H", csrf.as_str()];
    assert_eq!(browser.open(&format!("{origin}/v1/session"), &with).status, 200);
    assert_eq!(browser.open(&format!("{origin}/v1/session"), &[]).status, 401, "no CSRF token");
    assert_eq!(browser.open(&format!("{origin}/v1/live"), &with).status, 403, "out of scope");
    let first = first_token(server);
    let reload = |from: &str, to: &str| {
        let file = server.dir().join("weir.yaml");
        let text = std::fs::read_to_string(&file).unwrap().replace(from, to);
        std::fs::write(file, text).unwrap();
        ask(server, "POST", "/v1/configuration/reload", Some(&first), "");
    };
    // The roles of the configuration in force count, not those of the sign-in.
    let status = || browser.open(&format!("{origin}/v1/session"), &with).status;
    reload("group: support", "group: others");
    assert_eq!(status(), 401);
    reload("group: others", "group: support");
    assert_eq!(status(), 200);
    let listed = get(server, "/v1/sessions", &first).json();
    assert_eq!(
        (&listed[0]["holder"], &listed[0]["name"]),
        (&json!("oidc:ann+support"), &json!("ann"))
    );
    let out = browser.open(&format!("{origin}/v1/session"), &["-H", &csrf, "-X", "DELETE"]);
    let out: Value = serde_json::from_str(&out.text).unwrap();
    let provider = out["provider"].as_str().unwrap();
    assert!(
        provider.starts_with(&format!("{}/session/end?id_token_hint=", signing.provider.issuer))
    );
    assert_eq!(browser.open(&format!("{origin}/v1/session"), &with).status, 401);
    let end = browser.open(provider, &[]);
    assert!(end.status == 200 && end.text.contains("ogout"), "{end:?}");
    let audit = get(server, "/v1/audit?who=ann", &first).text();
    assert!(audit.contains("sign-in") && audit.contains("sign-out"), "{audit}");
    assert!(!audit.contains("eyJ"), "no token is in it");
}

#[test]
fn an_account_without_a_group_is_rejected_and_so_is_a_forged_return() {
    let Some(signing) = Signing::start() else { return };
    let origin = signing.origin();
    let rejected = Browser::new().sign_in(&signing, "eve+guests");
    assert_eq!(rejected.status, 403);
    assert!(rejected.text.contains("eve is signed in, but none of its groups"), "{rejected:?}");
    let audit = get(&signing.server, "/v1/audit?action=denied", &first_token(&signing.server));
    assert!(audit.text().contains("oidc:eve+guests"), "{}", audit.text());
    // Without the cookie of a start, with another state, and with another issuer.
    let callback = format!("{origin}/v1/oidc/callback?code=x&state=");
    assert_eq!(Browser::new().open(&format!("{callback}x"), &[]).status, 400);
    let browser = Browser::new();
    let started = browser.open(&format!("{origin}/v1/oidc/start"), &[]);
    assert!(started.url.contains("/interaction/"), "{started:?}");
    assert_eq!(browser.open(&format!("{callback}wrong"), &[]).status, 400);
    // Nobody asks the provider with the code of another one, and a state works once.
    let browser = Browser::new();
    let start = format!("{origin}/v1/oidc/start");
    let state = |page: &Page| {
        let state = page.location.split_once("&state=").unwrap().1;
        state.split('&').next().unwrap().to_owned()
    };
    let to_provider = browser.open(&start, &["--no-location"]);
    let returned = format!("{callback}{}&iss=", state(&to_provider));
    let forged = browser.open(&format!("{returned}https://evil.example.com"), &[]);
    assert_eq!(forged.status, 400);
    assert!(forged.text.contains("of another identity provider"), "{forged:?}");
    let browser = Browser::new();
    let to_provider = browser.open(&start, &["--no-location"]);
    let returned = format!("{callback}{}&iss={}", state(&to_provider), signing.provider.issuer);
    let cookies = std::fs::read(browser.file("jar")).unwrap();
    assert_eq!(browser.open(&returned, &[]).status, 503, "the provider rejects the code");
    std::fs::write(browser.file("jar"), cookies).unwrap();
    let again = browser.open(&returned, &[]);
    assert_eq!(again.status, 400, "{again:?}");
    let open = format!("{origin}/v1/oidc/start?from=https://evil.example.com/console/");
    let browser = Browser::new();
    let login = browser.open(&open, &[]);
    let back = browser.authenticate(&login, "ann+ops");
    assert!(back.location.starts_with("/console/#sign-in="), "{back:?}");
}

#[test]
fn a_provider_that_is_down_stops_neither_tokens_nor_the_start() {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\nadmin: {addr: \"127.0.0.1:0\", oidc: {issuer: \
        \"http://127.0.0.1:1\", client_id: weir, roles: [{group: ops, role: admin}]}}\n\
        apis: {a: {base: /, routes: [{get: /, reply: {text: hi}}]}}\n";
    let server = Weir::new(config).start();
    assert_eq!(get(&server, "/v1/session", &first_token(&server)).status, 200);
    let start = ask(&server, "GET", "/v1/oidc/start", None, "");
    assert_eq!(start.status, 503);
    assert!(start.text().contains("The identity provider cannot be used"), "{}", start.text());
    assert_eq!(ask(&server, "POST", "/v1/oidc/device", None, "").status, 503);
    let open = "listen: [{addr: \"127.0.0.1:0\"}]\nadmin: {addr: \"127.0.0.1:0\"}\n\
        apis: {a: {base: /, routes: [{get: /, reply: {text: hi}}]}}\n";
    let open = Weir::new(open).start();
    assert_eq!(ask(&open, "GET", "/v1/oidc", None, "").json(), json!({}));
    assert_eq!(ask(&open, "GET", "/v1/oidc/start", None, "").status, 404);
}

#[test]
fn the_command_line_signs_in_with_a_device_code() {
    let Some(signing) = Signing::start() else { return };
    let (home, url) = (tempfile::tempdir().unwrap(), signing.origin());
    let weir = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).args(["--admin", &url]).env("XDG_CONFIG_HOME", home.path());
        command.env_remove("WEIR_TOKEN").current_dir(home.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut login = weir(&["login"]).spawn().unwrap();
    let mut said = BufReader::new(login.stderr.take().unwrap()).lines();
    let opened = said.next().unwrap().unwrap();
    let page = opened.split_once("open ").unwrap().1.to_owned();
    let code = said.next().unwrap().unwrap();
    let code = code.rsplit(' ').next().unwrap();
    assert!(page.contains(code), "{page} {code}");
    let browser = Browser::new();
    let confirm = browser.open(&page, &[]);
    let xsrf = confirm.text.split("name=\"xsrf\" value=\"").nth(1).unwrap();
    let xsrf = format!("xsrf={}", xsrf.split('"').next().unwrap());
    let code = format!("user_code={code}");
    let device = page.split('?').next().unwrap();
    let login_page = browser.open(device, &["-d", &xsrf, "-d", &code, "-d", "confirm=yes"]);
    let done = browser.authenticate(&login_page, "bob+ops");
    assert_eq!(done.status, 200, "{done:?}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while login.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "weir login does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert!(
        rest.concat().contains("signed in as bob (operator; all APIs; payloads) until"),
        "{rest:?}"
    );
    let file = home.path().join("weir/logins.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let search = weir(&["search", ""]).output().unwrap();
    assert!(search.status.success(), "{}", String::from_utf8_lossy(&search.stderr));
    let first = first_token(&signing.server);
    let tokens = get(&signing.server, "/v1/tokens", &first).json();
    assert_eq!(tokens[1]["person"], "oidc:bob+ops", "{tokens}");
    assert!(tokens[1]["expires"].is_string(), "{tokens}");
    let audit = get(&signing.server, "/v1/audit?action=make-token", &first).json();
    let details = "weir login; started from 127.0.0.1, issued to 127.0.0.1";
    assert_eq!(audit[0]["details"], details, "{audit}");
    let configured = signing.server.dir().join("weir.yaml");
    let text = std::fs::read_to_string(&configured).unwrap();
    let reload = |text: &str| {
        std::fs::write(&configured, text).unwrap();
        ask(&signing.server, "POST", "/v1/configuration/reload", Some(&first), "");
    };
    reload(&text.replace("group: ops", "group: others"));
    assert!(!weir(&["search", ""]).output().unwrap().status.success(), "its group has no role");
    reload(&text.replace("    name: Test\n", "    name: Test\n    device: false\n"));
    assert_eq!(ask(&signing.server, "POST", "/v1/oidc/device", None, "").status, 404);
    reload(&text);
    assert!(weir(&["logout"]).output().unwrap().status.success());
    assert_eq!(get(&signing.server, "/v1/tokens", &first).json().as_array().unwrap().len(), 1);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("wadm_"));
    let again = weir(&["search", ""]).output().unwrap();
    assert!(!again.status.success());
}
