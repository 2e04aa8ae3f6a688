//! Kafka as a sink of transactions.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::kafka::{KAFKA, KafkaAuthKeys};
use crate::config::search_sink::SearchSinkKeys;
use crate::config::{KafkaAuth, KafkaBroker, KafkaSink};
use weir_document::draft::Node;
use weir_document::finding::{Fault, codes};

/// Port of Kafka.
const PORT: u16 = 9092;
/// Longest name of a topic (`Topic.java` of Kafka).
const MAX_TOPIC: usize = 249;
/// Name of a sink that has none.
const NAME: &str = "kafka";

impl Resolver<'_> {
    /// A sink with `kafka`.
    pub(super) fn kafka_sink(&mut self, sink: &Fields<'_>) -> Option<KafkaSink> {
        let fields = sink.object("kafka", &KAFKA)?;
        for (key, message) in [
            ("keep", "`keep` is for OpenSearch: the topic has the retention of messages"),
            ("plain", "write `plain` into `kafka`"),
        ] {
            if let Some(node) = sink.get(key) {
                self.report.error(codes::CONFLICT, node.at, message);
            }
        }
        let name = match sink.get("name") {
            Some(node) => self.sink_name(node)?,
            None => NAME.to_owned(),
        };
        let mut brokers = Vec::new();
        for node in fields.many("brokers") {
            match broker(node.text()?.trim()) {
                Ok(broker) => brokers.push(broker),
                Err(fault) => {
                    self.fault(node, fault);
                    return None;
                }
            }
        }
        let topic = self.topic(fields.get("topic")?)?;
        let auth = match fields.object("auth", KafkaAuthKeys::SHAPE) {
            Some(auth) => Some(KafkaAuth {
                mechanism: KafkaAuthKeys::read(&auth).mechanism,
                user: auth.line("user")?.to_owned(),
                password: auth.line("password")?.to_owned(),
            }),
            None => None,
        };
        let is_near = brokers.iter().all(|broker| is_local(&broker.host));
        let tls = self.engine_tls(&fields, is_near, false)?;
        let SearchSinkKeys { content, max_backlog, .. } = SearchSinkKeys::read(sink);
        Some(KafkaSink { name, content, max_backlog, brokers, topic, auth, tls })
    }

    fn topic(&mut self, node: &Node) -> Option<String> {
        let topic = node.text()?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = !matches!(topic, "" | "." | "..") && topic.bytes().all(allowed);
        if !is_name || topic.len() > MAX_TOPIC {
            let fault = Fault::value(format!("`{topic}` is not the name of a topic"));
            let help = "at most 249 letters, digits, dots, underscores and hyphens";
            self.fault(node, fault.help(help));
            return None;
        }
        Some(topic.to_owned())
    }
}

/// `HOST`, `HOST:PORT` or `[IPv6]:PORT`.
fn broker(text: &str) -> Result<KafkaBroker, Fault> {
    let fault = |message: &str| {
        Fault::value(format!("`{text}` {message}")).help("write `kafka.example.com:9092`")
    };
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Ok(PORT), str::parse).map_err(|_| fault("has no valid port"))?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || port == 0 || !host.bytes().all(fits) {
        return Err(fault("is not the address of a broker"));
    }
    Ok(KafkaBroker { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_have_a_host_and_a_port() {
        for (text, host, port) in [
            ("k1", "k1", 9092),
            ("k1.example.com:9093", "k1.example.com", 9093),
            ("10.0.0.1:9092", "10.0.0.1", 9092),
            ("[::1]:9093", "::1", 9093),
            ("[::1]", "::1", 9092),
        ] {
            let expected = KafkaBroker { host: host.to_owned(), port };
            assert_eq!(broker(text).ok(), Some(expected), "{text}");
        }
        for text in ["", ":9092", "k1:", "k1:0", "k1:99999", "kafka://k1:9092", "a@k1", "k1,k2"] {
            assert!(broker(text).is_err(), "{text}");
        }
    }
}
