//! The echo backend.

use crate::harness;

#[test]
fn bodies_come_back_on_one_connection() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    let large = "x".repeat(1024 * 1024);
    for body in ["a", "{\"a\": 1}", &large] {
        let response = client.post("/any", body);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert!(response.body == body.as_bytes());
    }
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn chunked_bodies_come_back_with_a_length() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = client.response();
    assert_eq!(response.text(), "abcdefg");
    assert_eq!(response.header("content-length"), Some("7"));
    assert_eq!(client.response().status, 200, "the pipelined request is answered, too");
}

#[test]
fn a_body_over_a_mebibyte_is_refused() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    assert_eq!(client.post("/", &"x".repeat(1024 * 1024 + 1)).status, 413);
    assert!(client.is_closed());
}

#[test]
fn what_is_no_http_is_refused() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    client.send("GET / HTTP/1.1\nHost: h\n\n");
    assert_eq!(client.response().status, 400);
    assert!(client.is_closed());
}

#[test]
fn a_client_that_waits_is_told_to_continue() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.any_response().status, 100);
    client.send("ok");
    assert_eq!(client.response().text(), "ok");
}

#[test]
fn streams_come_in_chunks() {
    let echo = harness::echo(&[]);
    let response = echo.connect().get("/stream/300");
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));
    assert_eq!(response.body.len(), 300 * 1024);
}

#[test]
fn a_second_one_on_the_same_address_is_refused() {
    let echo = harness::echo(&[]);
    let addr = echo.listen[0].to_string();
    let output = harness::weir(echo.dir(), &["echo", "--listen", &addr]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains(&addr) && message.contains("in use"), "{message}");
}

#[test]
fn a_signal_ends_it_well() {
    let mut echo = harness::echo(&[]);
    echo.signal(harness::Signal::TERM);
    assert!(echo.wait().success());
}

#[test]
fn a_client_that_has_said_everything_is_answered() {
    let echo = harness::echo(&[]);
    let mut client = echo.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /status/404 HTTP/1.0\r\n\r\n");
    client.finish();
    let text = String::from_utf8_lossy(&client.rest()).into_owned();
    let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
    assert_eq!(statuses, ["200", "404"], "{text}");
}

#[test]
fn messages_of_a_websocket_come_back() {
    use tungstenite::{Message, client::IntoClientRequest};
    let echo = harness::echo(&[]);
    let stream = std::net::TcpStream::connect(echo.listen[0]).unwrap();
    let request = format!("ws://{}/any", echo.listen[0]).into_client_request().unwrap();
    let (mut socket, response) = tungstenite::client(request, stream).expect("a handshake");
    assert_eq!(response.status(), 101);
    let large = "x".repeat(100_000);
    for message in [Message::text("a"), Message::binary(vec![0, 255]), Message::text(large)] {
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.send(Message::Ping(b"p".to_vec().into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(b"p".to_vec().into()));
    // The connection ends at the first frame that is too large: in the middle of sending, or after that.
    let sent = socket.send(Message::binary(vec![0; 2 << 20]));
    assert!(sent.is_err() || socket.read().is_err(), "too large: the connection ends");
    assert_eq!(echo.connect().get("/").status, 200);
}
