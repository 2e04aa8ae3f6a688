//! The partitions of a topic, their leaders, and open connections to brokers.

use crate::connection::{Broker, Connection, Settings};
use crate::fault::{Fault, check};
use crate::response::Metadata;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Metadata is fetched again after this time, so that new partitions are used.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);
/// Error code of a topic that does not exist.
const UNKNOWN_TOPIC: i16 = 3;

/// The partitions of a topic.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Broker of the leader of each partition by its number; `None`: it has none now.
    leaders: Vec<Option<Broker>>,
}

impl Topology {
    /// The partition of a key, by the hash that Kafka's own producers use.
    pub(crate) fn partition(&self, key: &[u8]) -> usize {
        let count = self.leaders.len().max(1);
        (murmur2(key) & 0x7fff_ffff) as usize % count
    }

    /// The leader of a partition.
    pub(crate) fn leader(&self, partition: usize) -> Option<&Broker> {
        self.leaders.get(partition)?.as_ref()
    }
}

/// What is known of the brokers.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    topology: Option<(Topology, Instant)>,
    /// An idle connection to each broker.
    idle: HashMap<Broker, Connection>,
}

impl Cluster {
    /// The partitions, from a broker if they are not known, or outdated.
    pub(crate) async fn topology(&mut self, settings: &Settings) -> Result<&Topology, Fault> {
        let age = self.topology.as_ref().map(|(_, fetched)| fetched.elapsed());
        if age.is_none_or(|age| age > MAX_AGE) {
            let topology = self.fetch(settings).await?;
            // Brokers that are no leaders any more.
            self.idle.retain(|broker, _| topology.leaders.iter().flatten().any(|b| b == broker));
            self.topology = Some((topology, Instant::now()));
        }
        match &self.topology {
            Some((topology, _)) => Ok(topology),
            None => Err(Fault::Retry("no metadata".to_owned())),
        }
    }

    /// The partitions are to be fetched again: a leader has changed.
    pub(crate) fn forget_topology(&mut self) {
        self.topology = None;
    }

    /// A connection to a broker, which [`Cluster::release`] takes back.
    pub(crate) async fn connection(
        &mut self,
        settings: &Settings,
        broker: &Broker,
    ) -> Result<Connection, Fault> {
        match self.idle.remove(broker).filter(Connection::is_fresh) {
            Some(connection) => Ok(connection),
            None => Connection::open(settings, broker).await,
        }
    }

    /// Takes back a connection that has not failed.
    pub(crate) fn release(&mut self, broker: &Broker, mut connection: Connection) {
        connection.is_suspect = true;
        self.idle.insert(broker.clone(), connection);
    }

    async fn fetch(&mut self, settings: &Settings) -> Result<Topology, Fault> {
        // Those that are known to be leaders, then those of the configuration.
        let known: Vec<Broker> = self.idle.keys().cloned().collect();
        let mut last = Fault::Retry("no broker".to_owned());
        for broker in known.iter().chain(&settings.brokers) {
            let fetched = self.fetch_from(settings, broker).await;
            match fetched.map_err(|fault| fault.at(&broker.to_string())) {
                Ok(response) => return topology(response, &settings.topic),
                // A broker that cannot be reached hides no other that rejects the user.
                Err(fault) => match last {
                    Fault::Pause(_) => {}
                    Fault::Retry(_) => last = fault,
                },
            }
        }
        Err(last)
    }

    async fn fetch_from(
        &mut self,
        settings: &Settings,
        broker: &Broker,
    ) -> Result<Metadata, Fault> {
        let mut connection = self.connection(settings, broker).await?;
        let name = TopicName(StrBytes::from_string(settings.topic.clone()));
        let topic = MetadataRequestTopic::default().with_name(Some(name));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![topic]))
            .with_allow_auto_topic_creation(false);
        let version = connection.metadata;
        let response = connection.call(ApiKey::Metadata, version, &request).await?;
        self.release(broker, connection);
        Ok(response)
    }
}

/// The partitions of a topic in a response.
fn topology(response: Metadata, name: &str) -> Result<Topology, Fault> {
    let topic = response.topics.first();
    let topic = topic.ok_or_else(|| Fault::Retry("metadata without the topic".to_owned()))?;
    if topic.error == UNKNOWN_TOPIC {
        return Err(Fault::Pause(format!("the topic `{name}` does not exist")));
    }
    check(topic.error).map_err(|fault| fault.at(&format!("topic `{name}`")))?;
    let mut leaders = vec![None; topic.partitions.len()];
    for partition in &topic.partitions {
        let broker = response.brokers.iter().find(|broker| broker.id == partition.leader);
        let leader = broker.and_then(|broker| {
            let port = u16::try_from(broker.port).ok()?;
            Some(Broker { host: broker.host.clone(), port })
        });
        let index = usize::try_from(partition.index).unwrap_or(usize::MAX);
        if let Some(place) = leaders.get_mut(index) {
            *place = leader;
        }
    }
    match leaders.is_empty() {
        true => Err(Fault::Retry(format!("the topic `{name}` has no partitions"))),
        false => Ok(Topology { leaders }),
    }
}

/// The hash of keys in Kafka's own producers: 32 bits of MurmurHash2 with Kafka's seed.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{MetadataBroker, MetadataPartition, MetadataTopic};

    /// Values of Kafka's own test of its hash (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_have_the_hash_of_kafka() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn partitions_without_a_leader_have_none() {
        let broker = MetadataBroker { id: 7, host: "k1".to_owned(), port: 9092 };
        let partition = |index, leader| MetadataPartition { index, leader };
        let response = |partitions, error| Metadata {
            brokers: vec![broker.clone()],
            topics: vec![MetadataTopic { error, partitions }],
        };
        let found = topology(response(vec![partition(1, 7), partition(0, -1)], 0), "t").unwrap();
        assert_eq!(found.leader(0), None);
        assert_eq!(found.leader(1), Some(&Broker { host: "k1".to_owned(), port: 9092 }));
        assert_eq!(found.leader(2), None);
        for (code, pauses) in [(3, true), (5, false), (17, true), (29, true)] {
            let fault = topology(response(Vec::new(), code), "t").unwrap_err();
            assert_eq!(matches!(fault, Fault::Pause(_)), pauses, "{code}: {fault}");
        }
        let fault = topology(response(Vec::new(), 0), "t").unwrap_err();
        assert!(matches!(fault, Fault::Retry(_)), "{fault}");
        let nothing =
            topology(Metadata { brokers: Vec::new(), topics: Vec::new() }, "t").unwrap_err();
        assert!(matches!(nothing, Fault::Retry(_)), "{nothing}");
        let outside = topology(response(vec![partition(9, 7)], 0), "t").unwrap();
        assert_eq!(outside.leader(0), None, "a number beyond the others");
    }
}
