//! Sends messages to the leaders of their partitions.

use crate::batch::{self, Batch, BatchSize, Message};
use crate::cluster::Cluster;
use crate::connection::{ACK_TIMEOUT, Broker, Connection, Settings};
use crate::fault::{self, BatchFault, Fault, Verdict};
use crate::response::Produce;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiKey, ProduceRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Most bytes of a request, unless one record batch is longer.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// All replicas in sync acknowledge.
const ACKS_ALL: i16 = -1;

/// Record batches that wait, by partition.
type Waiting = BTreeMap<usize, VecDeque<Batch>>;

/// Sends messages to a topic.
#[derive(Debug)]
pub struct Producer {
    settings: Arc<Settings>,
    cluster: Cluster,
    batch_size: BatchSize,
}

impl Producer {
    /// One without connections.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self { settings, cluster: Cluster::default(), batch_size: BatchSize::default() }
    }

    /// Sends messages; returns a verdict for each, in their order. Each broker is tried once; requests
    /// and connections have time limits.
    pub async fn send(&mut self, messages: &[Message]) -> Vec<Verdict> {
        let mut verdicts = vec![None; messages.len()];
        match self.by_leader(messages).await {
            Err(fault) => verdicts.fill(Some(fault.verdict())),
            Ok(leaders) => {
                for (leader, waiting) in leaders {
                    self.send_to(leader, waiting, messages, &mut verdicts).await;
                }
            }
        }
        let unsent = || Verdict::Retry("not sent".to_owned());
        verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(unsent)).collect()
    }

    /// Record batches by partition and leader.
    async fn by_leader(
        &mut self,
        messages: &[Message],
    ) -> Result<HashMap<Option<Broker>, Waiting>, Fault> {
        let topology = self.cluster.topology(&self.settings).await?;
        let mut partitions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, message) in messages.iter().enumerate() {
            partitions.entry(topology.partition(&message.key)).or_default().push(index);
        }
        let mut leaders: HashMap<Option<Broker>, Waiting> = HashMap::new();
        for (partition, indexes) in partitions {
            let batches = self.batch_size.divide(&indexes, messages);
            let leader = topology.leader(partition).cloned();
            leaders.entry(leader).or_default().insert(partition, batches);
        }
        Ok(leaders)
    }

    async fn send_to(
        &mut self,
        leader: Option<Broker>,
        mut waiting: Waiting,
        messages: &[Message],
        verdicts: &mut [Option<Verdict>],
    ) {
        let sent = match &leader {
            Some(leader) => self.send_all(leader, &mut waiting, messages, verdicts).await,
            None => Err(Fault::Retry("a partition has no leader".to_owned())),
        };
        let Err(fault) = sent else { return };
        self.cluster.forget_topology();
        let fault = match leader {
            Some(leader) => fault.at(&leader.to_string()),
            None => fault,
        };
        for index in waiting.into_values().flatten().flatten() {
            verdicts[index] = Some(fault.verdict());
        }
    }

    /// Sends all record batches of a leader. With an error, those without a response are still waiting.
    async fn send_all(
        &mut self,
        leader: &Broker,
        waiting: &mut Waiting,
        messages: &[Message],
        verdicts: &mut [Option<Verdict>],
    ) -> Result<(), Fault> {
        let mut connection = self.cluster.connection(&self.settings, leader).await?;
        loop {
            let partitions = next_request(waiting, messages);
            if partitions.is_empty() {
                break;
            }
            let request = self.request(&partitions, waiting, messages)?;
            let response = match call(&mut connection, &request).await {
                Err(_) if connection.is_suspect => {
                    connection = Connection::open(&self.settings, leader).await?;
                    call(&mut connection, &request).await?
                }
                response => response?,
            };
            let codes: HashMap<i32, i16> = response.partitions.into_iter().collect();
            for partition in partitions {
                let code = i32::try_from(partition).ok().and_then(|index| codes.get(&index));
                let fault = match code {
                    Some(code) => fault::of_batch(*code),
                    None => Some(BatchFault::Retry("a response without a partition".to_owned())),
                };
                self.settle(partition, fault, waiting, messages, verdicts);
            }
        }
        self.cluster.release(leader, connection);
        Ok(())
    }

    /// The request with the first record batch of these partitions.
    fn request(
        &self,
        partitions: &[usize],
        waiting: &Waiting,
        messages: &[Message],
    ) -> Result<ProduceRequest, Fault> {
        let mut data = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let Some(batch) = waiting.get(partition).and_then(VecDeque::front) else { continue };
            let records = batch::encode(batch.iter().map(|index| &messages[*index]))?;
            let index = i32::try_from(*partition).unwrap_or(i32::MAX);
            data.push(
                PartitionProduceData::default().with_index(index).with_records(Some(records)),
            );
        }
        let name = TopicName(StrBytes::from_string(self.settings.topic.clone()));
        let topic = TopicProduceData::default().with_name(name).with_partition_data(data);
        let timeout_ms = i32::try_from(ACK_TIMEOUT.as_millis()).unwrap_or(i32::MAX);
        Ok(ProduceRequest::default()
            .with_acks(ACKS_ALL)
            .with_timeout_ms(timeout_ms)
            .with_topic_data(vec![topic]))
    }

    /// Takes the result of the first record batch of a partition.
    fn settle(
        &mut self,
        partition: usize,
        fault: Option<BatchFault>,
        waiting: &mut Waiting,
        messages: &[Message],
        verdicts: &mut [Option<Verdict>],
    ) {
        let Some(batches) = waiting.get_mut(&partition) else { return };
        let Some(mut batch) = batches.pop_front() else { return };
        let verdict = match fault {
            None => {
                self.batch_size.succeeded();
                Verdict::Acknowledged
            }
            Some(BatchFault::Divide(..)) if batch.len() > 1 => {
                let bytes = batch.iter().map(|index| batch::size(&messages[*index])).sum();
                self.batch_size.too_large(bytes);
                let second = batch.split_off(batch.len() / 2);
                batches.push_front(second);
                batches.push_front(batch);
                return;
            }
            Some(BatchFault::Divide(status, reason)) => Verdict::Rejected(status, reason),
            Some(BatchFault::Pause(reason)) => Verdict::Pause(reason),
            Some(BatchFault::Retry(reason)) => {
                self.cluster.forget_topology();
                Verdict::Retry(reason)
            }
        };
        // What does not concern one message alone concerns the partition.
        let of_partition = matches!(verdict, Verdict::Retry(_) | Verdict::Pause(_));
        let others = if of_partition { std::mem::take(batches) } else { VecDeque::new() };
        for index in batch.into_iter().chain(others.into_iter().flatten()) {
            verdicts[index] = Some(verdict.clone());
        }
    }
}

async fn call(connection: &mut Connection, request: &ProduceRequest) -> Result<Produce, Fault> {
    let version = connection.produce;
    connection.call(ApiKey::Produce, version, request).await
}

/// The partitions whose first record batch goes into the next request.
fn next_request(waiting: &Waiting, messages: &[Message]) -> Vec<usize> {
    let (mut partitions, mut bytes) = (Vec::new(), 0);
    for (partition, batches) in waiting {
        let Some(batch) = batches.front() else { continue };
        bytes += batch.iter().map(|index| batch::size(&messages[*index])).sum::<usize>();
        if !partitions.is_empty() && bytes > MAX_REQUEST_BYTES {
            break;
        }
        partitions.push(*partition);
    }
    partitions
}
