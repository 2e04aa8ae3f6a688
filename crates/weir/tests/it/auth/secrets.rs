//! Credentials go nowhere but where they belong.

use super::api_keys::{Key, new_key};
use crate::harness::{self, KEYS, SECRET, Weir, eventually, unix_now};
use serde_json::json;

/// Credentials of every kind, good ones and bad ones, and then a search through everything weir
/// gives away about requests.
#[test]
fn no_credential_is_logged_measured_or_told() {
    let echo = harness::echo(&[]);
    let Key { key, hash } = new_key();
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlog: {{access: json}}\n\
         auth:\n  idp: {{jwt: {{algorithms: HS256, key: \"file:secret\", issuer: idp}}}}\n  \
         header: {{api_key: {{header: x-api-key}}}}\n  query: {{api_key: {{query: key}}}}\n\
         consumers: {{acme: {{api_keys: [\"{hash}\"]}}}}\n\
         upstreams:\n  echo: {{targets: [\"http://{}\"], auth: {{bearer: \"${{env:UPSTREAM}}\"}}}}\n  \
         dead: {{targets: [\"http://127.0.0.1:1\"], auth: {{basic: {{user: weir, password: \"${{env:UPSTREAM}}\"}}}}}}\n\
         apis:\n  api:\n    base: /\n    auth: [idp, header, query]\n    limit: {{rate: 100/s}}\n    \
         routes:\n      - {{post: /echo, proxy: echo}}\n      - {{post: /dead, proxy: dead}}\n      \
         - {{post: /map, request: {{map: {{a: $.a}}}}, proxy: echo}}\n",
        echo.listen[0],
    );
    let server = Weir::new(&config)
        .file("secret", SECRET)
        .env("UPSTREAM", "upstream-password-geheim")
        .start();
    let token = |iss: &str| KEYS.token("HS256", &json!({"iss": iss, "exp": unix_now() + 600}));
    let (good, bad) = (token("idp"), token("somebody"));
    let mut seen = String::new();
    let mut client = server.connect();
    for path in ["/echo", "/dead", "/map", "/none", "/echo?key=query-geheim"] {
        for (name, credential) in [
            ("authorization", format!("Bearer {good}")),
            ("authorization", format!("Bearer {bad}")),
            ("authorization", "Basic YmFzaWMtZ2VoZWlt".to_owned()),
            ("x-api-key", key.clone()),
            ("x-api-key", "wrong-geheim".to_owned()),
        ] {
            let headers = [(name, credential.as_str()), ("content-type", "application/json")];
            let response = client.request("POST", path, &headers, "{\"a\": \"body-geheim\"");
            if response.status >= 400 {
                seen.push_str(&format!("{:?}\n{}", response.headers, response.text()));
            }
        }
    }
    let answered = seen.matches("urn:weir:problem:").count();
    assert!(answered > 10, "only {answered} problem documents in\n{seen}");
    seen.push_str(&server.connect_admin().get("/metrics").text());
    // Lines of the access log are written within a moment.
    eventually("25 lines", || server.stderr().lines().count() >= 25);
    seen.push_str(&server.stderr());
    assert!(seen.contains("\"status\":401") && seen.contains("\"operation\":"), "{seen}");
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    for secret in [
        &signature(&good),
        &signature(&bad),
        SECRET,
        "YmFzaWMtZ2VoZWlt",
        "geheim",
        &key,
        hash.trim_start_matches("sha256:"),
    ] {
        assert!(!seen.contains(secret), "{secret} is in\n{seen}");
    }
}

#[test]
fn findings_show_no_value_of_the_environment_and_no_file() {
    let config = "auth: {idp: {jwt: {algorithms: HS256, key: \"file:secret\", audiense: x}}}\n\
        upstreams: {u: {targets: [\"http://127.0.0.1:1\"], auth: {bearer: \"${env:UPSTREAM}\"}, nonsense: 1}}\n\
        apis: {a: {base: /, auth: idp, routes: [{get: /, proxy: u}]}}\n";
    let output = Weir::new(config)
        .file("secret", "short-geheim")
        .env("UPSTREAM", "upstream-password-geheim\n")
        .refused();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("audiense") && said.contains("nonsense"), "{said}");
    assert!(!said.contains("geheim"), "{said}");
}

/// Configurations with a secret in a place where something is wrong with it or near it.
const WRONG: [&str; 15] = [
    "auth:\n  bearer: geheim-1\n  bearer: geheim-2\n",
    "auth: {bearer: geheim-1, bearer: geheim-2}\n",
    "auth: {bearer: geheim-1}\nauth: {bearer: geheim-2}\n",
    "auth:\n  bearr: geheim\n",
    "auth:\n  passwort: geheim\n",
    "auth:\n  basic: {user: me, password: [geheim]}\n",
    "auth:\n  basic: {user: me, passwd: {is: geheim}}\n",
    "auth:\n  basic: {user: me, password: 4711081547}\n",
    "auth: geheim\n",
    "auth:\n  bearer: {is: geheim}\n",
    // What cannot be read at all.
    "auth: {bearer: \"geheim\n",
    "auth:\n  bearer: geheim: and more\n",
    "auth:\n  header: {name: x-a, value: geheim}}\n",
    "tls:\n  key: |\n    -----BEGIN PRIVATE KEY-----\n    geheim\n  geheim\n    geheim\n",
    "auth:\n  bearer: geheim-1\n  bearer: geheim-2\nnonsense: [\n",
];

#[test]
fn what_is_wrong_with_a_configuration_is_shown_without_its_secrets() {
    for wrong in WRONG {
        let lines: String = wrong.lines().map(|line| format!("    {line}\n")).collect();
        let config = format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nupstreams:\n  u:\n    \
             targets: [\"http://127.0.0.1:1\"]\n{lines}\
             apis: {{a: {{base: /, routes: [{{get: /, proxy: u}}]}}}}\n"
        );
        let output = Weir::new(&config).refused();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(said.contains("weir.yaml:"), "no excerpt: {said}");
        assert!(!said.contains("geheim") && !said.contains("4711081547"), "{wrong}: {said}");
    }
    let set = ["--set", "upstreams.u.auth.bearr=geheim"];
    let config = "upstreams: {u: {targets: [\"http://127.0.0.1:1\"]}}\n";
    let output = Weir::new(config).args(&set).refused();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("bearr") && !said.contains("geheim"), "{said}");
}
