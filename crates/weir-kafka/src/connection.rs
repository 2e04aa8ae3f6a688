//! A connection to a broker: TLS, versions of requests, SASL, one request at a time.

use crate::fault::{Fault, check};
use crate::response::{
    self, API_VERSIONS, METADATA, PRODUCE, Reader, Response, SASL_AUTHENTICATE, SASL_HANDSHAKE,
};
use crate::scram::{self, Hash};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, RequestHeader, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use kafka_protocol::protocol::{Encodable, HeaderVersion, StrBytes};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Longest time until a connection is open, with TLS and SASL.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a response; a leader waits [`ACK_TIMEOUT`] for its replicas.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait of a leader for its replicas.
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest response: the metadata of a topic with thousands of partitions takes some 100 KiB.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Unused for longer, a connection is opened again: brokers close it after ten minutes.
const MAX_IDLE: Duration = Duration::from_secs(4 * 60);
/// Name of this client in logs and quotas of brokers.
const CLIENT_ID: StrBytes = StrBytes::from_static_str("weir");

/// How to reach a topic.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Brokers that name all others, in the order in which they are tried; not empty.
    pub brokers: Vec<Broker>,
    /// Name of the topic.
    pub topic: String,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<Tls>,
    /// Authentication; `None`: none, or by the client certificate.
    pub sasl: Option<Sasl>,
}

/// Address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broker {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// TLS of connections.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Trusted certificates, client certificate, versions.
    pub config: Arc<ClientConfig>,
    /// Name in the certificates of all brokers; `None`: the host of each.
    pub server_name: Option<ServerName<'static>>,
}

/// A user of Kafka.
#[derive(Clone)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: SaslMechanism,
    /// Name of the user.
    pub user: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for Sasl {
    /// Does not print the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, .. } = self;
        f.debug_struct("Sasl")
            .field("mechanism", mechanism)
            .field("user", user)
            .finish_non_exhaustive()
    }
}

/// How a user authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself (RFC 4616).
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// Name in the registry of SASL mechanisms.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An open connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    /// Number of the last request.
    correlation: i32,
    /// Versions of `Metadata` and `Produce` that the broker has in common with weir.
    pub(crate) metadata: i16,
    pub(crate) produce: i16,
    used: Instant,
    /// The broker closes it then, unless it authenticates again.
    expires: Option<Instant>,
    /// It was idle, and had no response since: the broker may have closed it.
    pub(crate) is_suspect: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and authenticates.
    pub(crate) async fn open(settings: &Settings, broker: &Broker) -> Result<Self, Fault> {
        let opened = timeout(CONNECT_TIMEOUT, Self::open_now(settings, broker)).await;
        opened.unwrap_or_else(|_| {
            Err(Fault::Retry(format!("not connected within {CONNECT_TIMEOUT:?}")))
        })
    }

    async fn open_now(settings: &Settings, broker: &Broker) -> Result<Self, Fault> {
        let failed = |error: io::Error| Fault::Retry(format!("cannot connect: {error}"));
        let stream = TcpStream::connect((broker.host.as_str(), broker.port)).await;
        let stream = stream.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let stream: Box<dyn Stream> = match &settings.tls {
            None => Box::new(stream),
            Some(Tls { config, server_name }) => {
                let name = match server_name {
                    Some(name) => name.clone(),
                    None => ServerName::try_from(broker.host.clone())
                        .map_err(|error| Fault::Pause(error.to_string()))?,
                };
                let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
                Box::new(connected.map_err(failed)?)
            }
        };
        let mut connection = Self {
            stream,
            correlation: 0,
            metadata: *METADATA.start(),
            produce: *PRODUCE.start(),
            used: Instant::now(),
            expires: None,
            is_suspect: false,
        };
        connection.negotiate().await?;
        if let Some(sasl) = &settings.sasl {
            connection.authenticate(sasl).await?;
        }
        Ok(connection)
    }

    /// Whether it can be used without being opened again.
    pub(crate) fn is_fresh(&self) -> bool {
        let is_valid = self.expires.is_none_or(|expires| Instant::now() < expires);
        is_valid && self.used.elapsed() < MAX_IDLE
    }

    async fn negotiate(&mut self) -> Result<(), Fault> {
        let request = ApiVersionsRequest::default();
        let response: response::ApiVersions =
            self.call(ApiKey::ApiVersions, API_VERSIONS, &request).await?;
        check(response.error)?;
        let common = |key: ApiKey, own: RangeInclusive<i16>| {
            let range = response.ranges.iter().find(|range| range.key == key as i16);
            let version = range.map(|range| range.max.min(*own.end()));
            let min = range.map_or(i16::MAX, |range| range.min).max(*own.start());
            version.filter(|version| *version >= min).ok_or_else(|| {
                let (from, to) = (own.start(), own.end());
                Fault::Pause(format!("the broker has no version {from} to {to} of {key:?}"))
            })
        };
        self.metadata = common(ApiKey::Metadata, METADATA)?;
        self.produce = common(ApiKey::Produce, PRODUCE)?;
        Ok(())
    }

    async fn authenticate(&mut self, sasl: &Sasl) -> Result<(), Fault> {
        let mechanism = StrBytes::from_static_str(sasl.mechanism.name());
        let request = SaslHandshakeRequest::default().with_mechanism(mechanism);
        let response: response::SaslHandshake =
            self.call(ApiKey::SaslHandshake, SASL_HANDSHAKE, &request).await?;
        check(response.error)?;
        let lifetime_ms = match sasl.mechanism {
            SaslMechanism::Plain => {
                let message = format!("\0{}\0{}", sasl.user, sasl.password);
                self.sasl_message(message.into()).await?.lifetime_ms
            }
            SaslMechanism::ScramSha256 => self.scram(Hash::Sha256, sasl).await?,
            SaslMechanism::ScramSha512 => self.scram(Hash::Sha512, sasl).await?,
        };
        // A fifth of the session is left for a request in flight.
        let lifetime = u64::try_from(lifetime_ms).ok().filter(|lifetime| *lifetime > 0);
        self.expires =
            lifetime.map(|lifetime| Instant::now() + Duration::from_millis(lifetime / 5 * 4));
        Ok(())
    }

    async fn scram(&mut self, hash: Hash, sasl: &Sasl) -> Result<i64, Fault> {
        let invalid = |error: &str| Fault::Pause(format!("SCRAM: {error}"));
        let (exchange, first) = scram::begin(hash, &sasl.user);
        let response = self.sasl_message(first.into()).await?;
        let server_first = std::str::from_utf8(&response.message).unwrap_or_default();
        let proven = exchange.prove(server_first, &sasl.password);
        let (proof, signature) = proven.map_err(invalid)?;
        let response = self.sasl_message(proof.into()).await?;
        let server_final = std::str::from_utf8(&response.message).unwrap_or_default();
        match signature.is_in(server_final) {
            true => Ok(response.lifetime_ms),
            false => Err(invalid("the broker does not know the password")),
        }
    }

    async fn sasl_message(&mut self, message: Bytes) -> Result<response::SaslAuthenticate, Fault> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message);
        let response: response::SaslAuthenticate =
            self.call(ApiKey::SaslAuthenticate, SASL_AUTHENTICATE, &request).await?;
        check(response.error)?;
        Ok(response)
    }

    /// Sends a request and waits for its response. After a failure the connection is not used again.
    pub(crate) async fn call<Q, R>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<R, Fault>
    where
        Q: Encodable + HeaderVersion,
        R: Response,
    {
        let response = timeout(RESPONSE_TIMEOUT, self.call_now(key, version, request)).await;
        let response = response.unwrap_or_else(|_| {
            Err(Fault::Retry(format!("no response within {RESPONSE_TIMEOUT:?}")))
        })?;
        (self.used, self.is_suspect) = (Instant::now(), false);
        Ok(response)
    }

    async fn call_now<Q, R>(&mut self, key: ApiKey, version: i16, request: &Q) -> Result<R, Fault>
    where
        Q: Encodable + HeaderVersion,
        R: Response,
    {
        let broken = |error: io::Error| Fault::Retry(format!("the connection failed: {error}"));
        self.correlation = self.correlation.wrapping_add(1);
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(CLIENT_ID));
        let mut frame = BytesMut::zeroed(4);
        header
            .encode(&mut frame, Q::header_version(version))
            .and_then(|()| request.encode(&mut frame, version))
            .map_err(|error| Fault::Pause(format!("{key:?} cannot be encoded: {error}")))?;
        let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame).await.map_err(broken)?;
        drop(frame);
        self.stream.flush().await.map_err(broken)?;

        let length = self.stream.read_u32().await.map_err(broken)? as usize;
        if length > MAX_RESPONSE_BYTES {
            return Err(Fault::Retry(format!("a response of {length} bytes")));
        }
        let mut response = BytesMut::zeroed(length);
        self.stream.read_exact(&mut response).await.map_err(broken)?;
        let mut reader = Reader(&response);
        // The header of responses in these versions.
        if reader.i32() != Some(self.correlation) {
            return Err(Fault::Retry("a response to another request".to_owned()));
        }
        let response = R::read(&mut reader, version);
        response.ok_or_else(|| Fault::Retry(format!("invalid response to {key:?}")))
    }
}
