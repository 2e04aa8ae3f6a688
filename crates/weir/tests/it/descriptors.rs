//! A process without a free file descriptor says so, and nobody else is blamed or left hanging.

use crate::harness::{Client, Response, Upstream, Weir, eventually};

fn is_exhausted(response: &Response) -> bool {
    let text = response.text();
    assert!([200, 503].contains(&response.status), "{text}");
    assert!(response.status != 503 || text.contains("descriptors-exhausted"), "{text}");
    response.status == 503
}

#[test]
fn clients_are_told_when_descriptors_run_out_and_served_when_some_are_free_again() {
    let upstream =
        Upstream::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nup");
    let server = Weir::new(&format!(
        "listen: [127.0.0.1:0]
workers: 1
limits: {{connections: 4000, header_time: 60s}}
upstreams:
  u: {{targets: [\"http://{}\"]}}
apis:
  a:
    base: /
    routes:
      - {{get: /reply, reply: {{text: ok}}}}
      - {{get: /up, proxy: u}}
",
        upstream.addr
    ))
    .descriptors(256)
    .start();
    assert!(server.stderr().contains("at most 256 file descriptors may be open"));
    // As many as are served.
    let mut kept: Vec<Client> = Vec::new();
    let refused = loop {
        assert!(kept.len() < 256, "there is no end");
        let mut client = server.connect();
        let response = client.get("/reply");
        if is_exhausted(&response) {
            break response;
        }
        assert_eq!(response.status, 200);
        kept.push(client);
    };
    assert!(kept.len() > 100, "{}", kept.len());
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("connection"), Some("close"));
    // Silent ones use up the reserve.
    let silent: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    eventually("the upstream cannot be connected to", || is_exhausted(&kept[0].get("/up")));
    // Those behind them in the queue are told all the same, however many they are.
    for _ in 0..20 {
        let mut client = server.connect();
        // The response may be there before the request is sent.
        if client.try_send("GET /reply HTTP/1.1\r\nHost: a\r\n\r\n")
            && let Some(response) = client.try_response()
        {
            assert!(is_exhausted(&response), "{}", response.status);
        }
    }
    assert!(server.metric("weir_descriptors_exhausted_total", &[]) >= 2.0);
    eventually("it is logged", || server.stderr().contains("no file descriptor was free"));
    drop((silent, kept));
    eventually("requests are served again", || {
        Client::try_connect(server.listen[0])
            .and_then(|mut client| client.try_get("/up"))
            .is_some_and(|response| response.status == 200)
    });
}
