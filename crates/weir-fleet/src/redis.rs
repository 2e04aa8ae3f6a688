//! Connections to Redis, and the script that takes tokens of a bucket there.
//!
//! Each request is one EVALSHA; those of a round are sent together. A connection that has failed or
//! timed out is not used again.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::HEXLOWER;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, RedisResult};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Takes tokens of a bucket.
const SCRIPT: &str = include_str!("redis/take.lua");

/// The greatest integer that Lua has exactly.
const MAX_INTEGER: u64 = 1 << 53;

/// How to connect.
#[derive(Clone, Debug)]
pub(crate) struct ConnectRedis {
    /// The server and the user.
    pub redis: weir_config::Redis,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<Arc<ClientConfig>>,
}

/// Why Redis cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisError {
    /// It cannot be reached, or rejects the user.
    #[error("cannot connect to Redis: {0}")]
    Connect(String),
    /// A command has failed.
    #[error("Redis: {0}")]
    Command(#[from] redis::RedisError),
    /// Nothing came in time.
    #[error("Redis: no response within {0:?}")]
    Timeout(Duration),
}

/// A request for tokens of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take<'a> {
    /// The key.
    pub(crate) key: &'a str,
    /// Time until one token is refilled.
    pub(crate) interval: Duration,
    /// Most tokens.
    pub(crate) burst: u64,
    /// Tokens requested, at least 1.
    pub(crate) tokens: u64,
}

/// The response to a request for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many, at most those requested.
    Granted(u64),
    /// None; the time until one is there.
    Denied(Duration),
}

/// A connection.
pub(crate) struct RedisConnection {
    commands: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}

impl Drop for RedisConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl RedisConnection {
    /// Connects within a time.
    pub(crate) async fn open(connect: &ConnectRedis, limit: Duration) -> Result<Self, RedisError> {
        let opened = timeout(limit, Self::open_now(connect)).await;
        opened.unwrap_or(Err(RedisError::Timeout(limit)))
    }

    async fn open_now(connect: &ConnectRedis) -> Result<Self, RedisError> {
        let redis = &connect.redis;
        let failed = |reason: String| RedisError::Connect(reason);
        let stream = TcpStream::connect((redis.host.as_str(), redis.port)).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        // Requests wait for each response.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        match (&connect.tls, &redis.tls) {
            (Some(tls), Some(settings)) => {
                let name = match &settings.server_name {
                    Some(name) => name.clone(),
                    None => ServerName::try_from(redis.host.clone())
                        .map_err(|error| failed(error.to_string()))?,
                };
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                Self::start(redis, stream.map_err(|error| failed(error.to_string()))?).await
            }
            (None, None) => Self::start(redis, stream).await,
            // TLS is never left out because it was not compiled.
            _ => Err(failed("TLS is not configured".to_owned())),
        }
    }

    async fn start<S>(redis: &weir_config::Redis, stream: S) -> Result<Self, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default()
            .set_db(i64::from(redis.database))
            .set_lib_name("weir", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &redis.user {
            info = info.set_username(user);
        }
        if let Some(password) = &redis.password {
            info = info.set_password(password);
        }
        // Callers set the time limits.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let started = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (commands, driver) = started.map_err(|error| RedisError::Connect(error.to_string()))?;
        Ok(Self { commands, driver: tokio::spawn(driver) })
    }

    /// Takes tokens: a response for each request, in their order.
    pub(crate) async fn take(&mut self, requests: &[Take<'_>]) -> Result<Vec<Taken>, RedisError> {
        let hash = hash();
        let mut results = self.evaluate(&hash, requests).await?;
        if results.iter().any(is_unknown_script) {
            // Redis has been restarted. What other requests of the round have taken is forfeit.
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(SCRIPT).query_async::<String>(&mut self.commands).await?;
            results = self.evaluate(&hash, requests).await?;
        }
        let taken = |result: RedisResult<(u64, u64)>| {
            let (tokens, wait_us) = result?;
            Ok(match tokens {
                0 => Taken::Denied(Duration::from_micros(wait_us)),
                tokens => Taken::Granted(tokens),
            })
        };
        results.into_iter().map(taken).collect()
    }

    async fn evaluate(
        &mut self,
        hash: &str,
        requests: &[Take<'_>],
    ) -> Result<Vec<RedisResult<(u64, u64)>>, RedisError> {
        let mut round = Pipeline::with_capacity(requests.len());
        round.ignore_errors();
        for request in requests {
            let command = round.cmd("EVALSHA").arg(hash).arg(1).arg(request.key);
            command.arg(microseconds(request.interval));
            command.arg(request.burst.min(MAX_INTEGER)).arg(request.tokens.min(MAX_INTEGER));
        }
        Ok(round.query_async(&mut self.commands).await?)
    }
}

fn is_unknown_script<T>(result: &RedisResult<T>) -> bool {
    result.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT"))
}

/// The name of the script in Redis: SHA-1 in hexadecimal digits.
fn hash() -> String {
    HEXLOWER.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, SCRIPT.as_bytes()).as_ref())
}

/// A time in microseconds, with nanoseconds as its fraction.
fn microseconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_micros(), time.subsec_nanos() % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_name_that_redis_gives_it() {
        assert_eq!(hash().len(), 40);
        assert!(hash().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(microseconds(Duration::from_nanos(3_333)), "3.333");
        assert_eq!(microseconds(Duration::from_secs(60)), "60000000.000");
        assert_eq!(microseconds(Duration::from_nanos(7)), "0.007");
    }
}
