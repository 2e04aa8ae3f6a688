//! A producer for Apache Kafka: at least once, acknowledged by all replicas in sync.
//!
//! A [`Producer`] sends messages and gives a [`Verdict`] for each. It neither queues nor waits between
//! attempts: the caller repeats what is to be repeated. `kafka-protocol` encodes requests and messages.
//!
//! The modules from the bottom: `fault` says what an error means, `response` reads, `scram` and `connection` open
//! connections to a broker, `cluster` knows partitions and their leaders, `batch` divides messages into
//! record batches, `producer` combines them.

mod batch;
mod cluster;
mod connection;
mod fault;
mod producer;
mod response;
mod scram;

pub use batch::Message;
pub use connection::{Broker, Sasl, SaslMechanism, Settings, Tls};
pub use fault::Verdict;
pub use producer::Producer;
