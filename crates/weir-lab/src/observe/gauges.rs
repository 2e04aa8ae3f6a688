//! Gauges of a metrics page in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::program::Origin;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use weir_http_client::Connection;

/// Largest page.
const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;
/// Time for a page.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A metrics page and the names of its gauges.
#[derive(Clone, Debug)]
pub struct Gauges {
    origin: Origin,
    target: String,
    /// Names with or without labels; all label sets of a name are added up.
    names: Vec<String>,
}

impl Gauges {
    /// Gauges `names` of the page at `target`; plain HTTP only.
    pub fn new(origin: Origin, target: &str, names: Vec<String>) -> Self {
        Self { origin, target: target.to_owned(), names }
    }

    /// Reads the page. Returns the existing gauges with their values; `None` if the page cannot be
    /// read. Blocks for at most two seconds.
    pub fn scrape(&self) -> Option<Vec<(String, f64)>> {
        let (status, page) = get(&self.origin, &self.target)?;
        if status != StatusCode::OK {
            return None;
        }
        let values = parse(&String::from_utf8_lossy(&page));
        let of = |name: &String| {
            let is_one = |known: &str| {
                let labels = known.strip_prefix(name.as_str());
                labels.is_some_and(|labels| labels.is_empty() || labels.starts_with('{'))
            };
            let found = values.iter().filter(|(known, _)| is_one(known)).map(|(_, value)| *value);
            Some((name.clone(), found.reduce(|sum, value| sum + value)?))
        };
        Some(self.names.iter().filter_map(of).collect())
    }
}

/// Status and body of a page by plain HTTP; `None` if they cannot be read. Not within a Tokio
/// runtime.
fn get(origin: &Origin, target: &str) -> Option<(StatusCode, Bytes)> {
    let request = Request::get(target).header(header::HOST, origin.authority());
    let request = request.header(header::CONNECTION, "close").body(Full::default()).ok()?;
    let exchange = async {
        let address = (origin.host.as_str(), origin.port);
        let mut connection = Connection::open(address, None).await.ok()?;
        let response = connection.send(request).await.ok()?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_PAGE_BYTES).collect().await.ok()?;
        Some((status, body.to_bytes()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, exchange).await.ok().flatten() })
}

/// Whether a server responds with 2xx at `target`; without a target, or with TLS, whether its port
/// is open.
pub fn is_ready(origin: &Origin, target: Option<&str>) -> bool {
    let Some(target) = target.filter(|_| !origin.tls) else {
        let host_and_port = (origin.host.as_str(), origin.port);
        let address = host_and_port.to_socket_addrs().ok().and_then(|mut found| found.next());
        let open = |address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        return address.is_some_and(open);
    };
    get(origin, target).is_some_and(|(status, _)| status.is_success())
}

/// All samples of a page: name with labels as written, and value. Comments, timestamps and invalid
/// lines are skipped.
pub fn parse(page: &str) -> Vec<(String, f64)> {
    page.lines().filter_map(sample).collect()
}

fn sample(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // Label values may contain any character; quotation marks are escaped.
    let mut quoted = false;
    let mut escaped = false;
    let end = line.char_indices().find(|&(_, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return !quoted && c.is_whitespace(),
        }
        false
    });
    let (name, rest) = line.split_at(end?.0);
    // `+Inf`, `-Inf` and `NaN` are numbers in Rust, too.
    Some((name.to_owned(), rest.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const PAGE: &str = "# HELP queue_depth waiting\n# TYPE queue_depth gauge\nqueue_depth 7\n\
        lag_seconds{lane=\"a b\",x=\"\\\"\"} 1.5 1700000000000\nlag_seconds{lane=\"2\"} 0.25\n\
        lag_seconds_total 9\nbroken\nodd +Inf\n";

    #[test]
    fn a_metrics_page_is_parsed() {
        let values = parse(PAGE);
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "queue_depth",
                "lag_seconds{lane=\"a b\",x=\"\\\"\"}",
                "lag_seconds{lane=\"2\"}",
                "lag_seconds_total",
                "odd"
            ]
        );
        assert_eq!(values[1].1, 1.5);
    }

    #[test]
    fn gauges_are_scraped_by_name() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
                weir_wire::encode::chunk(&mut text, PAGE.as_bytes());
                text.extend_from_slice(weir_wire::encode::LAST_CHUNK);
                for part in text.chunks(50) {
                    let _ = stream.write_all(part);
                }
            }
        });
        let origin = Origin { tls: false, host: "127.0.0.1".to_owned(), port };
        let names = ["queue_depth", "lag_seconds", "missing"].map(str::to_owned).to_vec();
        let values = Gauges::new(origin, "/metrics", names).scrape().unwrap();
        assert_eq!(values, [("queue_depth".to_owned(), 7.0), ("lag_seconds".to_owned(), 1.75)]);
    }
}
