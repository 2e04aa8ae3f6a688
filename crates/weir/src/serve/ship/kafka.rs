//! Messages to a topic of Kafka, by producers that are reused.

use super::sender::{Outcome, Sent};
use std::future::Future;
use std::sync::Arc;
use weir_config::{KafkaMechanism, KafkaSink};
use weir_kafka::{Broker, Message, Producer, Sasl, SaslMechanism, Settings, Tls, Verdict};
use weir_net::tls::UpstreamClients;
use weir_ship::{EventMessage, ItemVerdict, Ticket};

/// The producers of a sink.
pub(super) struct KafkaSender {
    /// `None`: its TLS was not compiled, and is not left out.
    settings: Option<Arc<Settings>>,
    /// Idle producers: one for each request in flight.
    idle: Vec<Producer>,
}

impl KafkaSender {
    /// That of the sink with an index in the configuration.
    pub(super) fn new(sink: &KafkaSink, index: usize, clients: &UpstreamClients) -> Self {
        Self { settings: settings(sink, index, clients).map(Arc::new), idle: Vec::new() }
    }

    /// Sends messages.
    pub(super) fn send(
        &mut self,
        sink: usize,
        ticket: Ticket,
        messages: Vec<EventMessage>,
    ) -> impl Future<Output = Sent> + Send + use<> {
        let own = || self.settings.clone().map(Producer::new);
        let mut producer = self.idle.pop().or_else(own);
        async move {
            let messages: Vec<Message> = messages.into_iter().map(message).collect();
            let verdicts = match &mut producer {
                Some(producer) => producer.send(&messages).await,
                None => vec![Verdict::Pause("TLS is not configured".to_owned()); messages.len()],
            };
            let verdicts = verdicts.into_iter().map(verdict).collect();
            Sent { sink, ticket, outcome: Outcome::Messages { verdicts, producer } }
        }
    }

    /// A producer has sent.
    pub(super) fn done(&mut self, producer: Option<Producer>) {
        self.idle.extend(producer);
    }
}

fn settings(sink: &KafkaSink, index: usize, clients: &UpstreamClients) -> Option<Settings> {
    let tls = match &sink.tls {
        None => None,
        Some(tls) => Some(Tls {
            config: Arc::clone(clients.kafka(index)?),
            server_name: tls.server_name.clone(),
        }),
    };
    let broker =
        |broker: &weir_config::KafkaBroker| Broker { host: broker.host.clone(), port: broker.port };
    let sasl = sink.auth.as_ref().map(|auth| Sasl {
        mechanism: match auth.mechanism {
            KafkaMechanism::Plain => SaslMechanism::Plain,
            KafkaMechanism::ScramSha256 => SaslMechanism::ScramSha256,
            KafkaMechanism::ScramSha512 => SaslMechanism::ScramSha512,
        },
        user: auth.user.clone(),
        password: auth.password.clone(),
    });
    let brokers = sink.brokers.iter().map(broker).collect();
    Some(Settings { brokers, topic: sink.topic.clone(), tls, sasl })
}

fn message(event: EventMessage) -> Message {
    let EventMessage { key, value, headers, time_ms } = event;
    Message { key, value, headers, time_ms: i64::try_from(time_ms).unwrap_or(i64::MAX) }
}

fn verdict(verdict: Verdict) -> ItemVerdict {
    match verdict {
        Verdict::Acknowledged => ItemVerdict::Done,
        Verdict::Retry(reason) => ItemVerdict::Retry(reason),
        Verdict::Rejected(code, reason) => ItemVerdict::Rejected(code, reason),
        Verdict::Pause(reason) => ItemVerdict::Pause(reason),
    }
}
