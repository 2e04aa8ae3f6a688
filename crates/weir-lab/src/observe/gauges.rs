//! Gauges of a metrics page in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::program::Origin;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use weir_wire::{BodyDecoder, HeadLimits, Method, ResponseHead, Scan};

/// Largest page.
const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A metrics page and the names of its gauges.
#[derive(Clone, Debug)]
pub struct Gauges {
    origin: Origin,
    target: String,
    /// Names with or without labels; all label sets of a name are added up.
    names: Vec<String>,
    timeout: Duration,
}

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// A network error.
    #[error("the metrics page cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The response is not HTTP.
    #[error("the metrics page is not HTTP: {0}")]
    Http(String),
    /// The status is not 200.
    #[error("the status of the metrics page is {0}")]
    Status(u16),
    /// The page is too large.
    #[error("the metrics page is larger than 16 MiB")]
    TooLong,
}

impl Gauges {
    /// Gauges `names` of the page at `target`; plain HTTP only.
    pub fn new(origin: Origin, target: &str, names: Vec<String>) -> Self {
        Self { origin, target: target.to_owned(), names, timeout: Duration::from_secs(2) }
    }

    /// Reads the page. Returns the existing gauges with their values. Blocks for at most two
    /// seconds.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn scrape(&self) -> Result<Vec<(String, f64)>, ScrapeError> {
        let page = self.fetch()?;
        let values = parse(&page);
        let of = |name: &String| {
            let exact = values.iter().filter(|(known, _)| known == name);
            let labelled = values.iter().filter(|(known, _)| {
                known.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('{'))
            });
            let found: Vec<f64> = exact.chain(labelled).map(|(_, value)| *value).collect();
            (!found.is_empty()).then(|| (name.clone(), found.iter().sum()))
        };
        Ok(self.names.iter().filter_map(of).collect())
    }

    fn fetch(&self) -> Result<String, ScrapeError> {
        let deadline = Instant::now() + self.timeout;
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let place = (self.origin.host.as_str(), self.origin.port);
        let address = place.to_socket_addrs()?.next().ok_or_else(late)?;
        let mut stream = TcpStream::connect_timeout(&address, self.timeout)?;
        let authority = self.origin.authority();
        stream.set_write_timeout(Some(self.timeout))?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n",
            self.target
        );
        stream.write_all(request.as_bytes())?;
        let mut input = Vec::new();
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(page) = page(&input, false)? {
                return Ok(page);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late().into());
            }
            stream.set_read_timeout(Some(left))?;
            let read = stream.read(&mut chunk)?;
            if read == 0 {
                let cut = || ScrapeError::Http("truncated response".to_owned());
                return page(&input, true)?.ok_or_else(cut);
            }
            input.extend_from_slice(&chunk[..read]);
            if input.len() > MAX_PAGE_BYTES {
                return Err(ScrapeError::TooLong);
            }
        }
    }
}

/// Whether a server responds with 2xx at `target`; without a target, or with TLS, whether its port
/// is open.
pub fn is_ready(origin: &Origin, target: Option<&str>) -> bool {
    let Some(target) = target.filter(|_| !origin.tls) else {
        let place = (origin.host.as_str(), origin.port);
        let address = place.to_socket_addrs().ok().and_then(|mut found| found.next());
        let open = |address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        return address.is_some_and(open);
    };
    match Gauges::new(origin.clone(), target, Vec::new()).fetch() {
        Ok(_) | Err(ScrapeError::Status(200..=299)) => true,
        Err(_) => false,
    }
}

/// The page in a complete response.
fn page(input: &[u8], closed: bool) -> Result<Option<String>, ScrapeError> {
    let wrong = |error: &dyn std::fmt::Display| ScrapeError::Http(error.to_string());
    let mut head = ResponseHead::default();
    let parsed = head.parse(input, Method::Get, &mut Scan::new(), &HeadLimits::default());
    let Some(mut at) = parsed.map_err(|error| wrong(&error))? else { return Ok(None) };
    if head.status != 200 {
        return Err(ScrapeError::Status(head.status));
    }
    let mut decoder = BodyDecoder::new(head.framing);
    let mut body = Vec::new();
    while !decoder.is_done() {
        let found = decoder.decode(&input[at..]).map_err(|error| wrong(&error))?;
        if found.consumed == 0 {
            break;
        }
        body.extend_from_slice(&input[at..][found.data]);
        at += found.consumed;
    }
    if closed {
        decoder.close().map_err(|error| wrong(&error))?;
    }
    Ok(decoder.is_done().then(|| String::from_utf8_lossy(&body).into_owned()))
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
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        number => number.parse().ok()?,
    };
    Some((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PAGE: &str = "# HELP queue_depth waiting\n# TYPE queue_depth gauge\nqueue_depth 7\n\
        lag_seconds{lane=\"a b\",x=\"\\\"\"} 1.5 1700000000000\nlag_seconds{lane=\"2\"} 0.25\n\
        lag_seconds_total 9\nbroken\nodd +Inf\n";

    #[test]
    fn a_page_is_taken_apart() {
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
                for piece in text.chunks(50) {
                    let _ = stream.write_all(piece);
                }
            }
        });
        let origin = Origin { tls: false, host: "127.0.0.1".to_owned(), port };
        let names = ["queue_depth", "lag_seconds", "missing"].map(str::to_owned).to_vec();
        let values = Gauges::new(origin, "/metrics", names).scrape().unwrap();
        assert_eq!(values, [("queue_depth".to_owned(), 7.0), ("lag_seconds".to_owned(), 1.75)]);
    }
}
