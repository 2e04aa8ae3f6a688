//! Service discovery: SRV records with hosts, ports, priorities and weights (RFC 2782).

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData};
use std::cmp::Reverse;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::{JoinSet, spawn_blocking};

/// Maximum number of records in use, those with the lowest priorities first.
const MAX_RECORDS: usize = 64;
/// Maximum number of addresses of a host in use.
const MAX_ADDRESSES: usize = 8;
/// Maximum number of concurrent lookups of hosts.
const MAX_CONCURRENT_LOOKUPS: usize = 8;

/// A name, and the resolver of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    /// `None`: the resolvers of the system.
    pub(super) resolver: Option<SocketAddr>,
    /// Limit on connecting, including the lookup.
    pub(super) timeout: Duration,
}

/// A server from a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) priority: u16,
    pub(super) weight: u16,
    /// Never empty.
    pub(super) addresses: Vec<SocketAddr>,
}

/// Servers in the order of attempts: the lowest priority first, equal ones at random by weight.
pub(super) fn weighted_order(servers: &[Server]) -> Vec<&Server> {
    let mut left: Vec<&Server> = servers.iter().collect();
    // Servers with weight 0 come first, in random order, which gives them a small chance.
    fastrand::shuffle(&mut left);
    left.sort_by_key(|server| (server.priority, server.weight > 0));
    let mut ordered = Vec::with_capacity(left.len());
    while let Some(priority) = left.first().map(|first| first.priority) {
        let equals = || left.iter().take_while(|server| server.priority == priority);
        let sum: u32 = equals().map(|server| u32::from(server.weight)).sum();
        let lot = fastrand::u32(0..=sum);
        let mut upto = 0;
        let drawn = equals().position(|server| {
            upto += u32::from(server.weight);
            upto >= lot
        });
        ordered.push(left.remove(drawn.unwrap_or(0)));
    }
    ordered
}

impl Service {
    /// The servers; empty if the records declare the service unavailable.
    pub(super) async fn resolve(&self) -> io::Result<Vec<Server>> {
        // Before connecting times out, so that the failure is counted.
        let in_time = self.timeout.mul_f64(0.9);
        tokio::time::timeout(in_time, self.query()).await?
    }

    async fn query(&self) -> io::Result<Vec<Server>> {
        let (address, timeout) = (self.resolver, self.timeout);
        // Reads the system's files each time, as they may change.
        let resolver = spawn_blocking(move || resolver(address, timeout)).await??;
        let response = resolver.srv_lookup(self.name.as_str()).await.map_err(io::Error::other)?;
        let records = response.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(record) => Some(record),
            _ => None,
        });
        let mut records: Vec<&SRV> = records.collect();
        if let [SRV { target, .. }] = records[..]
            && target.is_root()
        {
            return Ok(Vec::new());
        }
        records.retain(|record| !record.target.is_root() && record.port > 0);
        records.sort_by_key(|record| (record.priority, Reverse(record.weight)));
        records.truncate(MAX_RECORDS);
        let hosts = resolve_hosts(&resolver, &records).await;
        let servers: Vec<Server> =
            records.iter().filter_map(|record| server(record, &hosts)).collect();
        if servers.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the SRV records list no server"));
        }
        Ok(servers)
    }
}

fn resolver(address: Option<SocketAddr>, timeout: Duration) -> io::Result<TokioResolver> {
    let mut builder = match address {
        None => TokioResolver::builder_tokio().map_err(io::Error::other)?,
        Some(address) => {
            let at_port = |mut connection: ConnectionConfig| {
                connection.port = address.port();
                connection
            };
            let transports =
                vec![at_port(ConnectionConfig::udp()), at_port(ConnectionConfig::tcp())];
            let server = NameServerConfig::new(address.ip(), true, transports);
            let config = ResolverConfig::from_name_servers(vec![server]);
            let mut builder =
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            builder.options_mut().use_hosts_file = ResolveHosts::Never;
            builder
        }
    };
    let options = builder.options_mut();
    // `resolve` defines how long results are used.
    options.cache_size = 0;
    // Leaves time for a second query.
    options.timeout = options.timeout.min(timeout / 3);
    options.attempts = 1;
    builder.build().map_err(io::Error::other)
}

/// Addresses of the hosts that have any.
async fn resolve_hosts(resolver: &TokioResolver, records: &[&SRV]) -> Vec<(Name, Vec<IpAddr>)> {
    let mut names: Vec<&Name> = records.iter().map(|record| &record.target).collect();
    names.sort();
    names.dedup();
    let mut hosts = Vec::with_capacity(names.len());
    for names in names.chunks(MAX_CONCURRENT_LOOKUPS) {
        let mut lookups = JoinSet::new();
        for &name in names {
            let (resolver, name) = (resolver.clone(), name.clone());
            lookups.spawn(async move {
                let found = resolver.lookup_ip(name.clone()).await.ok()?;
                Some((name, found.iter().take(MAX_ADDRESSES).collect::<Vec<_>>()))
            });
        }
        hosts.extend(lookups.join_all().await.into_iter().flatten());
    }
    hosts
}

/// The server of a record, if its host has addresses.
fn server(record: &SRV, hosts: &[(Name, Vec<IpAddr>)]) -> Option<Server> {
    let (_, addresses) = hosts.iter().find(|(name, _)| *name == record.target)?;
    let addresses: Vec<SocketAddr> =
        addresses.iter().map(|ip| SocketAddr::new(*ip, record.port)).collect();
    let SRV { priority, weight, .. } = *record;
    (!addresses.is_empty()).then_some(Server { priority, weight, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(priority: u16, weight: u16) -> Server {
        Server { priority, weight, addresses: vec![SocketAddr::from(([127, 0, 0, 1], 80))] }
    }

    #[test]
    fn the_lowest_priority_is_first_whatever_the_weights() {
        let servers = [server(20, 9), server(10, 0), server(10, 1), server(5, 0)];
        for _ in 0..50 {
            let order: Vec<u16> = weighted_order(&servers).iter().map(|one| one.priority).collect();
            assert_eq!(order, [5, 10, 10, 20]);
        }
    }

    #[test]
    fn equals_are_drawn_by_their_weights() {
        let first = |servers: &[Server], weight: u16| {
            (0..4000).filter(|_| weighted_order(servers)[0].weight == weight).count()
        };
        let heavy = first(&[server(1, 10), server(1, 30)], 30);
        assert!((2700..3300).contains(&heavy), "{heavy}");
        let rare = first(&[server(1, 0), server(1, 100)], 0);
        assert!((1..200).contains(&rare), "{rare}");
    }

    #[test]
    fn those_without_weight_take_turns() {
        let mut one = server(1, 0);
        one.addresses[0].set_port(81);
        let servers = [one, server(1, 0)];
        let count =
            (0..1000).filter(|_| weighted_order(&servers)[0].addresses[0].port() == 81).count();
        assert!((350..650).contains(&count), "{count}");
    }
}
