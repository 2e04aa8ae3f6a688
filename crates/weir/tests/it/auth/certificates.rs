//! Client certificates: made by OpenSSL, shown by curl.

use crate::harness::{Server, Weir, eventually, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Authorities and certificates, as OpenSSL makes them.
struct Pki(TempDir);

impl Pki {
    fn new() -> Self {
        let pki = Self(tempfile::tempdir().unwrap());
        for name in ["ca", "other", "server"] {
            let subject = format!("/CN={name}");
            let mut args =
                vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
            args.extend(["-nodes", "-days", "2", "-subj", &subject]);
            args.extend(["-keyout", "KEY.key", "-out", "KEY.crt"]);
            if name == "server" {
                args.extend(["-addext", "subjectAltName=DNS:localhost"]);
                // As an authority, commands would not accept it for a server.
                args.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
            }
            let args: Vec<String> = args.iter().map(|a| a.replace("KEY", name)).collect();
            pki.openssl(&args.iter().map(String::as_str).collect::<Vec<_>>());
        }
        pki.file("openssl.cnf", CA);
        pki.file("index.txt", "");
        pki.file("serial", "1000\n");
        pki.file("crlnumber", "01\n");
        pki
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.dir().join(name), text).unwrap();
    }

    fn openssl(&self, args: &[&str]) {
        run(Command::new("openssl").current_dir(self.dir()).args(args), b"");
    }

    /// A certificate of this authority.
    fn issue(&self, name: &str, authority: &str) {
        let files = [".key", ".csr", ".crt"].map(|end| format!("{name}{end}"));
        let [key, csr, crt] = files.each_ref().map(String::as_str);
        let subject = format!("/O=Acme/CN={name}");
        self.openssl(&[
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", &subject, "-keyout", key, "-out", csr,
        ]);
        let (ca_crt, ca_key) = (format!("{authority}.crt"), format!("{authority}.key"));
        self.openssl(&[
            "ca",
            "-batch",
            "-config",
            "openssl.cnf",
            "-cert",
            &ca_crt,
            "-keyfile",
            &ca_key,
            "-in",
            csr,
            "-out",
            crt,
            "-notext",
            "-extensions",
            "client",
        ]);
    }

    fn serve(&self, clients: &str) -> Server {
        let read = |name: &str| std::fs::read(self.dir().join(name)).unwrap();
        let config = format!(
            "listen: [{{addr: \"127.0.0.1:0\", tls: {{cert: \"file:server.crt\", key: \"file:server.key\"}}, \
             client_certificates: {clients}}}]\nworkers: 1\n\
             auth: {{cn: {{certificate: common-name}}, spiffe: {{certificate: uri}}}}\n\
             plans: {{p: {{rate: 1000/s}}}}\n\
             consumers: {{acme: {{plan: p, match: {{auth: cn, when: \"claims.common_name == 'acme'\"}}}}}}\n\
             apis: {{api: {{base: /, auth: cn, routes: [\
             {{get: /, reply: {{map: {{who: {{cel: consumer}}, claims: {{cel: claims}}}}}}}}, \
             {{get: /uri, auth: spiffe, reply: {{map: {{claims: {{cel: claims.uri}}}}}}}}, \
             {{get: /open, auth: none, reply: {{text: open}}}}]}}}}\n"
        );
        let mut weir = Weir::new(&config);
        for name in ["server.crt", "server.key", "ca.crt", "ca.crl"] {
            if self.dir().join(name).exists() {
                weir = weir.file(name, read(name));
            }
        }
        weir.start()
    }

    /// What curl gets; `None` if it gets no connection.
    fn curl(&self, server: &Server, path: &str, more: &[&str]) -> Option<(u16, String)> {
        self.curl_at(server.listen[0].port(), path, more)
    }

    fn curl_at(&self, port: u16, path: &str, more: &[&str]) -> Option<(u16, String)> {
        let output = Command::new("curl")
            .current_dir(self.dir())
            .args(["-s", "--cacert", "server.crt", "-w", "\n%{http_code}"])
            .args(more)
            .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
            .arg(format!("https://localhost:{port}{path}"))
            .output()
            .expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n')?;
        let status = status.parse().ok().filter(|status| *status != 0)?;
        Some((status, body.to_owned()))
    }

    fn shown<'a>(name: &'a str, files: &'a mut [String; 2]) -> [&'a str; 4] {
        *files = [format!("{name}.crt"), format!("{name}.key")];
        ["--cert", &files[0], "--key", &files[1]]
    }
}

const CA: &str = "
[ca]
default_ca = all
[all]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
default_days = 1
default_crl_days = 1
crlnumber = crlnumber
crl_extensions = list
policy = any
unique_subject = no
[any]
organizationName = optional
commonName = supplied
[list]
authorityKeyIdentifier = keyid
[client]
extendedKeyUsage = clientAuth
subjectAltName = URI:spiffe://acme/billing, DNS:billing.acme
";

#[test]
fn a_certificate_of_the_authority_is_wanted_and_says_who_calls() {
    let pki = Pki::new();
    pki.issue("acme", "ca");
    pki.issue("stranger", "other");
    let server = pki.serve("{ca: \"file:ca.crt\"}");
    let mut files = Default::default();
    for protocol in ["--http1.1", "--http2"] {
        let shown = Pki::shown("acme", &mut files);
        let more = [&shown[..], &[protocol]].concat();
        let (status, body) = pki.curl(&server, "/", &more).expect("a connection");
        assert_eq!(status, 200, "{body}");
        let response: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(response["who"], "acme");
        assert_eq!(response["claims"]["common_name"], "acme");
        assert_eq!(response["claims"]["dns"][0], "billing.acme");
        assert_eq!(response["claims"]["fingerprint"].as_str().unwrap().len(), 64);
        let (_, body) = pki.curl(&server, "/uri", &more).unwrap();
        assert!(body.contains("spiffe://acme/billing"), "{body}");
    }
    let before = server.metric("weir_tls_handshake_failures_total", &[]);
    assert_eq!(pki.curl(&server, "/open", &[]), None, "without one there is no connection");
    let stranger = Pki::shown("stranger", &mut files);
    assert_eq!(pki.curl(&server, "/open", &stranger), None, "of another authority");
    assert!(server.metric("weir_tls_handshake_failures_total", &[]) >= before + 2.0);
    let reason = "TLS handshakes with clients failed: ";
    eventually("the reason is logged", || server.stderr().contains(reason));
}

#[test]
fn where_it_is_optional_those_without_pass_as_nobody() {
    let pki = Pki::new();
    pki.issue("acme", "ca");
    pki.issue("stranger", "other");
    let server = pki.serve("{ca: \"file:ca.crt\", optional: true}");
    let mut files = Default::default();
    assert_eq!(pki.curl(&server, "/open", &[]).unwrap().0, 200);
    let (status, body) = pki.curl(&server, "/", &[]).unwrap();
    assert_eq!(status, 401);
    assert!(body.contains("missing-credential"), "{body}");
    assert_eq!(pki.curl(&server, "/", &Pki::shown("acme", &mut files)).unwrap().0, 200);
    assert_eq!(pki.curl(&server, "/open", &Pki::shown("stranger", &mut files)), None);
}

#[test]
fn a_revoked_one_is_refused_from_the_reload_on() {
    let pki = Pki::new();
    pki.issue("acme", "ca");
    pki.issue("lost", "ca");
    let list = [
        "ca",
        "-config",
        "openssl.cnf",
        "-cert",
        "ca.crt",
        "-keyfile",
        "ca.key",
        "-gencrl",
        "-out",
        "ca.crl",
    ];
    pki.openssl(&list);
    let mut server = pki.serve("{ca: \"file:ca.crt\", crl: \"file:ca.crl\"}");
    let mut files = Default::default();
    assert_eq!(pki.curl(&server, "/open", &Pki::shown("lost", &mut files)).unwrap().0, 200);
    pki.openssl(&[
        "ca",
        "-config",
        "openssl.cnf",
        "-cert",
        "ca.crt",
        "-keyfile",
        "ca.key",
        "-revoke",
        "lost.crt",
    ]);
    pki.openssl(&list);
    server.replace("ca.crl", std::fs::read(pki.dir().join("ca.crl")).unwrap());
    server.event("reloaded");
    assert_eq!(pki.curl(&server, "/open", &Pki::shown("lost", &mut files)), None);
    assert_eq!(pki.curl(&server, "/open", &Pki::shown("acme", &mut files)).unwrap().0, 200);
}

#[test]
fn the_admin_listener_requires_or_accepts_certificates() {
    let pki = Pki::new();
    pki.issue("acme", "ca");
    pki.issue("mallory", "other");
    for (optional, without) in [(false, None), (true, Some(401))] {
        let config = format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nadmin: {{addr: \"127.0.0.1:0\", tls: {{cert: \
             \"file:server.crt\", key: \"file:server.key\"}}, client_certificates: {{ca: \"file:ca.crt\", \
             optional: {optional}}}}}\napis: {{a: {{base: /, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
        );
        let mut weir = Weir::new(&config);
        for name in ["server.crt", "server.key", "ca.crt"] {
            weir = weir.file(name, std::fs::read(pki.dir().join(name)).unwrap());
        }
        let server = weir.start();
        let get = |more: &[&str]| {
            let found = pki.curl_at(server.admin.unwrap().port(), "/v1/session", more);
            found.map(|(status, _)| status)
        };
        let acme = ["--cert", "acme.crt", "--key", "acme.key"];
        assert_eq!(get(&acme), Some(401), "a certificate is no token");
        let token = std::fs::read_to_string(server.dir().join("data/admin.token")).unwrap();
        let bearer = format!("authorization: Bearer {}", token.trim());
        assert_eq!(get(&[&acme[..], &["-H", &bearer]].concat()), Some(200));
        assert_eq!(get(&["--cert", "mallory.crt", "--key", "mallory.key"]), None);
        assert_eq!(get(&[]), without, "optional: {optional}");
        let run = |args: &[&str], environment: &[(&str, &str)]| {
            let url = format!("https://localhost:{}", server.admin.unwrap().port());
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
            command.args(["token", "list", "--admin", &url, "--ca", "server.crt"]).args(args);
            command.env("WEIR_TOKEN", token.trim()).envs(environment.iter().copied());
            let output = command.current_dir(pki.dir()).output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let files = [("WEIR_CERT", "acme.crt"), ("WEIR_KEY", "acme.key")];
        for (args, environment) in [(&acme[..], &[][..]), (&[], &files)] {
            let (ok, err) = run(args, environment);
            assert!(ok, "{args:?} {environment:?}: {err}");
        }
        assert_eq!(run(&[], &[]).0, optional);
        let foreign = ["--cert", "mallory.crt", "--key", "mallory.key"];
        assert!(!run(&foreign, &files).0, "an option precedes the environment");
        let (ok, err) = run(&["--cert", "acme.crt"], &files);
        assert!(!ok && err.contains("a private key from acme.crt"), "{err}");
    }
}
