//! `Expect: 100-continue` over HTTP/2: the client is told to go on when its body is wanted.

use super::{curl, server, urls};
use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS};
use crate::harness::{self, Weir, run};
use std::process::Command;
use std::time::Duration;

/// A POST whose client waits for an interim response.
fn expecting<'f>(path: &'f str, length: &'f str) -> [(&'f str, &'f [u8]); 6] {
    [
        (":method", b"POST"),
        (":scheme", b"http"),
        (":authority", b"localhost"),
        (":path", path.as_bytes()),
        ("expect", b"100-continue"),
        ("content-length", length.as_bytes()),
    ]
}

#[test]
fn the_interim_response_comes_before_the_body_and_only_if_that_is_wanted() {
    let echo = harness::echo(&[]);
    let server = Weir::new(&format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams: {{up: {{targets: [\"http://{}\"]}}}}
apis: {{api: {{base: /, routes: [{{path: /small, proxy: up, limits: {{body: 3B}}}}, {{path: \"/*\", proxy: up}}]}}}}\n",
        echo.listen[0]
    ))
    .start();
    let mut client = Frames::connect(server.listen[0], 65_535);
    client.head(1, &expecting("/any", "4"), 0);
    let interim = client.next().expect("an interim response");
    assert_eq!((interim.status(), interim.ends()), (100, false), "{interim:?}");
    assert!(client.next_within(Duration::from_millis(200)).is_none(), "one is enough");
    client.send(DATA, END_STREAM, 1, b"body");
    let head = client.next().expect("a head");
    assert_eq!((head.kind, head.status()), (HEADERS, 200));
    assert_eq!(client.next().expect("a body").payload, b"body");

    // Too long a body, a body without a route that takes one, and one that is there already.
    let mut client = Frames::connect(server.listen[0], 65_535);
    client.head(1, &expecting("/small", "4"), 0);
    assert_eq!(client.next().expect("a final response").status(), 413);
    let mut client = Frames::connect(server.listen[0], 65_535);
    client.head(1, &expecting("/any", "4"), 0);
    client.send(DATA, END_STREAM, 1, b"body");
    let mut head = client.next().expect("a head");
    if head.status() == 100 {
        // The head was read before the body had come.
        head = client.next().expect("a head");
    }
    assert_eq!(head.status(), 200);
}

#[test]
fn curl_sends_its_body_at_once() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (plain, tls) = urls(&server, "/any");
    let file = server.dir().join("body");
    let body = "x".repeat(300_000);
    std::fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    // Longer than curl may take in all: it goes on because it is told to.
    let waits =
        ["-H", "Expect: 100-continue", "--expect100-timeout", "120", "--data-binary", &data];
    for (version, url) in
        [("--http2-prior-knowledge", plain.as_str()), ("--http2", &tls), ("--http1.1", &plain)]
    {
        let told = curl(&[&[version], &waits[..], &[url]].concat());
        let version = if version == "--http1.1" { "1.1" } else { "2" };
        assert!(told == format!("{body}200 {version}"), "{version}: {} bytes", told.len());
    }
}

/// Java's own client, which waits for the interim response for ever.
const CLIENT: &str = r#"
import java.net.URI;
import java.net.http.*;
import java.security.cert.X509Certificate;
import java.time.Duration;
import javax.net.ssl.*;

public class Expect {
    public static void main(String[] args) throws Exception {
        System.setProperty("jdk.internal.httpclient.disableHostnameVerification", "true");
        TrustManager all = new X509ExtendedTrustManager() {
            public void checkClientTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkServerTrusted(X509Certificate[] c, String a, java.net.Socket s) {}
            public void checkClientTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkServerTrusted(X509Certificate[] c, String a, SSLEngine e) {}
            public void checkClientTrusted(X509Certificate[] c, String a) {}
            public void checkServerTrusted(X509Certificate[] c, String a) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        };
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, new TrustManager[] {all}, null);
        HttpClient client = HttpClient.newBuilder().sslContext(tls).version(HttpClient.Version.HTTP_2).build();
        for (int i = 0; i < 3; i++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).expectContinue(true)
                .timeout(Duration.ofSeconds(45)).POST(HttpRequest.BodyPublishers.ofString("from java")).build();
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(response.version() + " " + response.statusCode() + " " + response.body());
        }
    }
}
"#;

#[test]
fn javas_client_sends_its_body() {
    if Command::new("java").arg("-version").output().is_err() {
        eprintln!("SKIPPED: there is no java, which `make setup` installs");
        return;
    }
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (_, tls) = urls(&server, "/any");
    let source = server.dir().join("Expect.java");
    std::fs::write(&source, CLIENT).unwrap();
    let mut command = Command::new("timeout");
    command.args(["180", "java", "-Xmx256m", "-XX:TieredStopAtLevel=1"]).arg(&source).arg(&tls);
    let told = String::from_utf8(run(&mut command, b"")).expect("a text");
    assert_eq!(told, "HTTP_2 200 from java\n".repeat(3));
}
