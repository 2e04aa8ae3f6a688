//! A WebSocket (RFC 6455) whose messages are sent back.

use super::LARGEST_BODY;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncWriteExt, Result};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use weir_wire::{Method, RequestHead};

/// Answer to the handshake for a request that opens a WebSocket; `None` for any other request.
pub(super) fn accept_key(head: &RequestHead) -> Option<String> {
    let upgrade = head.headers.get("upgrade")?;
    let is_websocket = head.method == Method::Get && upgrade.eq_ignore_ascii_case(b"websocket");
    let key = head.headers.get("sec-websocket-key").filter(|_| is_websocket)?;
    Some(derive_accept_key(key))
}

/// Opens the WebSocket and sends every message back, until the client closes it. `rest` are the bytes
/// after the head.
pub(super) async fn serve(stream: &mut TcpStream, key: &str, rest: Vec<u8>) -> Result<()> {
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {key}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_BODY))
        .max_frame_size(Some(LARGEST_BODY));
    let mut socket =
        WebSocketStream::from_partially_read(stream, rest, Role::Server, Some(config)).await;
    // An error ends the connection; pings and the closing frame are answered by reading on.
    while let Some(Ok(message)) = socket.next().await {
        let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_data && socket.send(message).await.is_err() {
            break;
        }
    }
    Ok(())
}
