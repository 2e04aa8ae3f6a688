//! Responses of brokers. Lengths are compared with what is there before anything is allocated: the
//! decoder of `kafka-protocol` allocates what a response announces.
//!
//! The versions are the last ones before "flexible" ones, which have other encodings of lengths.

use std::ops::RangeInclusive;

/// Versions of `Metadata` that are sent: the oldest can forbid the creation of topics.
pub(crate) const METADATA: RangeInclusive<i16> = 4..=8;
/// Versions of `Produce` that are sent: the oldest has record batches.
pub(crate) const PRODUCE: RangeInclusive<i16> = 3..=8;
/// Version of `ApiVersions`, which every broker understands.
pub(crate) const API_VERSIONS: i16 = 0;
/// Version of `SaslHandshake` after which `SaslAuthenticate` has the messages.
pub(crate) const SASL_HANDSHAKE: i16 = 1;
/// Version of `SaslAuthenticate` that has the lifetime of a session.
pub(crate) const SASL_AUTHENTICATE: i16 = 1;

/// A response of a broker.
pub(crate) trait Response: Sized {
    /// Reads what is used of it; `None`: it is not one.
    fn read(reader: &mut Reader<'_>, version: i16) -> Option<Self>;
}

/// The rest of a response.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A text; one that is null is empty.
    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    /// Elements of an array; one that is null is empty. Every element has a byte at least, so their
    /// number is bounded by the length of the response.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.i32()?.max(0);
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Some(list)
    }
}

/// Versions of a request that a broker understands.
pub(crate) struct ApiRange {
    pub(crate) key: i16,
    pub(crate) min: i16,
    pub(crate) max: i16,
}

/// Response to `ApiVersions`.
pub(crate) struct ApiVersions {
    pub(crate) error: i16,
    pub(crate) ranges: Vec<ApiRange>,
}

impl Response for ApiVersions {
    fn read(reader: &mut Reader<'_>, _: i16) -> Option<Self> {
        let error = reader.i16()?;
        let range = |reader: &mut Reader<'_>| {
            Some(ApiRange { key: reader.i16()?, min: reader.i16()?, max: reader.i16()? })
        };
        Some(Self { error, ranges: reader.list(range)? })
    }
}

/// Response to `SaslHandshake`.
pub(crate) struct SaslHandshake {
    pub(crate) error: i16,
}

impl Response for SaslHandshake {
    fn read(reader: &mut Reader<'_>, _: i16) -> Option<Self> {
        Some(Self { error: reader.i16()? })
    }
}

/// Response to `SaslAuthenticate`.
pub(crate) struct SaslAuthenticate {
    pub(crate) error: i16,
    /// The message of the mechanism.
    pub(crate) message: Vec<u8>,
    /// Milliseconds until the broker closes the connection; 0: it does not.
    pub(crate) lifetime_ms: i64,
}

impl Response for SaslAuthenticate {
    fn read(reader: &mut Reader<'_>, _: i16) -> Option<Self> {
        let error = reader.i16()?;
        reader.text()?;
        let length = usize::try_from(reader.i32()?).unwrap_or(0);
        let message = reader.bytes(length)?.to_vec();
        Some(Self { error, message, lifetime_ms: reader.i64()? })
    }
}

/// A broker in a response to `Metadata`.
#[derive(Clone, Debug)]
pub(crate) struct MetadataBroker {
    pub(crate) id: i32,
    pub(crate) host: String,
    pub(crate) port: i32,
}

/// A partition in a response to `Metadata`.
#[derive(Clone, Debug)]
pub(crate) struct MetadataPartition {
    pub(crate) index: i32,
    /// Id of the broker; below 0: none.
    pub(crate) leader: i32,
}

/// A topic in a response to `Metadata`.
#[derive(Clone, Debug)]
pub(crate) struct MetadataTopic {
    pub(crate) error: i16,
    pub(crate) partitions: Vec<MetadataPartition>,
}

/// Response to `Metadata`.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) brokers: Vec<MetadataBroker>,
    pub(crate) topics: Vec<MetadataTopic>,
}

impl Response for Metadata {
    fn read(reader: &mut Reader<'_>, version: i16) -> Option<Self> {
        let _throttle_ms = reader.i32()?;
        let brokers = reader.list(|reader| {
            let (id, host, port) = (reader.i32()?, reader.text()?.to_owned(), reader.i32()?);
            let _rack = reader.text()?;
            Some(MetadataBroker { id, host, port })
        })?;
        let (_cluster, _controller) = (reader.text()?, reader.i32()?);
        let topics = reader.list(|reader| {
            let error = reader.i16()?;
            let _name = reader.text()?;
            let [_is_internal] = reader.array()?;
            let partitions = reader.list(|reader| partition(reader, version))?;
            if version >= 8 {
                let _operations = reader.i32()?;
            }
            Some(MetadataTopic { error, partitions })
        })?;
        Some(Self { brokers, topics })
    }
}

fn partition(reader: &mut Reader<'_>, version: i16) -> Option<MetadataPartition> {
    let _error = reader.i16()?;
    let (index, leader) = (reader.i32()?, reader.i32()?);
    if version >= 7 {
        let _epoch = reader.i32()?;
    }
    // Replicas, those in sync, and since version 5 those offline.
    for _ in 0..if version >= 5 { 3 } else { 2 } {
        reader.list(Reader::i32)?;
    }
    Some(MetadataPartition { index, leader })
}

/// Response to `Produce`: error codes by partition.
pub(crate) struct Produce {
    pub(crate) partitions: Vec<(i32, i16)>,
}

impl Response for Produce {
    fn read(reader: &mut Reader<'_>, version: i16) -> Option<Self> {
        let topics = reader.list(|reader| {
            let _name = reader.text()?;
            reader.list(|reader| {
                let (index, error) = (reader.i32()?, reader.i16()?);
                let (_offset, _time) = (reader.i64()?, reader.i64()?);
                if version >= 5 {
                    let _start = reader.i64()?;
                }
                if version >= 8 {
                    reader.list(|reader| Some((reader.i32()?, reader.text()?.len())))?;
                    let _message = reader.text()?;
                }
                Some((index, error))
            })
        })?;
        Some(Self { partitions: topics.into_iter().flatten().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::produce_response::{
        BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::{
        ApiVersionsResponse, MetadataResponse, ProduceResponse, SaslAuthenticateResponse,
        api_versions_response,
    };
    use kafka_protocol::protocol::{Encodable, StrBytes};

    /// Encodes a response as a broker does, and reads it; also all its beginnings.
    fn read<R: Response>(response: &impl Encodable, version: i16) -> R {
        let mut bytes = BytesMut::new();
        response.encode(&mut bytes, version).unwrap();
        for end in 0..bytes.len() {
            let _ = R::read(&mut Reader(&bytes[..end]), version);
        }
        R::read(&mut Reader(&bytes), version).unwrap()
    }

    #[test]
    fn metadata_is_read_in_every_version() {
        let broker = MetadataResponseBroker::default()
            .with_node_id(7.into())
            .with_host(StrBytes::from_static_str("k1"))
            .with_port(9092)
            .with_rack(Some(StrBytes::from_static_str("r")));
        let partition = MetadataResponsePartition::default()
            .with_partition_index(3)
            .with_leader_id(7.into())
            .with_replica_nodes(vec![7.into(), 8.into()])
            .with_isr_nodes(vec![7.into()]);
        let topic = MetadataResponseTopic::default()
            .with_name(Some(kafka_protocol::messages::TopicName(StrBytes::from_static_str("t"))))
            .with_error_code(5)
            .with_partitions(vec![partition.clone(), partition]);
        let response =
            MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]);
        for version in METADATA {
            let Metadata { brokers, topics } = read(&response, version);
            assert_eq!((brokers[0].id, &*brokers[0].host, brokers[0].port), (7, "k1", 9092));
            assert_eq!((topics[0].error, topics[0].partitions.len()), (5, 2));
            let MetadataPartition { index, leader } = topics[0].partitions[1];
            assert_eq!((index, leader), (3, 7), "version {version}");
        }
    }

    #[test]
    fn results_are_read_in_every_version() {
        for version in PRODUCE {
            let mut partition =
                PartitionProduceResponse::default().with_index(2).with_error_code(10);
            if version >= 8 {
                let text = Some(StrBytes::from_static_str("x"));
                let error = BatchIndexAndErrorMessage::default()
                    .with_batch_index_error_message(text.clone());
                partition = partition.with_record_errors(vec![error]).with_error_message(text);
            }
            let topic = TopicProduceResponse::default()
                .with_name(kafka_protocol::messages::TopicName(StrBytes::from_static_str("t")))
                .with_partition_responses(vec![partition.clone(), partition.with_index(4)]);
            let response = ProduceResponse::default().with_responses(vec![topic]);
            let Produce { partitions } = read(&response, version);
            assert_eq!(partitions, [(2, 10), (4, 10)], "version {version}");
        }
    }

    #[test]
    fn handshakes_are_read() {
        let range = api_versions_response::ApiVersion::default()
            .with_api_key(3)
            .with_min_version(1)
            .with_max_version(9);
        let response =
            ApiVersionsResponse::default().with_error_code(35).with_api_keys(vec![range]);
        let ApiVersions { error, ranges } = read(&response, API_VERSIONS);
        assert_eq!((error, ranges[0].key, ranges[0].min, ranges[0].max), (35, 3, 1, 9));
        let response = SaslAuthenticateResponse::default()
            .with_error_message(Some(StrBytes::from_static_str("no")))
            .with_auth_bytes(b"v=abc".as_slice().into())
            .with_session_lifetime_ms(1_000);
        let read: SaslAuthenticate = read(&response, SASL_AUTHENTICATE);
        assert_eq!((&*read.message, read.lifetime_ms), (&b"v=abc"[..], 1_000));
    }

    #[test]
    fn a_length_beyond_the_response_is_an_error_and_no_memory() {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&i32::MAX.to_be_bytes());
        assert!(Metadata::read(&mut Reader(&bytes), 8).is_none());
        assert!(Produce::read(&mut Reader(&i32::MAX.to_be_bytes()), 8).is_none());
        assert!(ApiVersions::read(&mut Reader(&bytes[2..]), 0).is_none());
    }
}
