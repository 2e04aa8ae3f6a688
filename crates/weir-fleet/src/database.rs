//! Connections to PostgreSQL.
//!
//! Statements are unnamed and typed by the caller, so that each takes one round trip and works
//! through PgBouncer in transaction mode. Every wait is bounded; a connection that has timed out is
//! not used again.

use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_config::{Postgres, PostgresServer};

/// Time to connect to a server, including TLS and authentication.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for a statement to complete.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause between the statements of a transaction: as long as the lease of a node.
const IDLE_TIMEOUT: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s'";
/// The oldest version of PostgreSQL that is supported, as in `server_version_num`.
const MIN_SERVER: i32 = 150_000;

/// A parameter of a statement and its type.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// How to connect.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The servers and the role.
    pub postgres: Postgres,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<Arc<ClientConfig>>,
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// No server can be reached, or none accepts writes.
    #[error("cannot connect to PostgreSQL: {0}")]
    Connect(String),
    /// A statement has failed.
    #[error("PostgreSQL: {}", reason(.0))]
    Statement(#[from] tokio_postgres::Error),
    /// A statement has timed out.
    #[error("PostgreSQL: no response within {STATEMENT_TIMEOUT:?}")]
    Timeout,
    /// Another process has made a later boot of this node, or the lease has ended.
    #[error("this node has to register again")]
    Fenced,
    /// A row was expected.
    #[error("PostgreSQL: a row is missing")]
    Missing,
    /// A later version of weir has changed the schema so that this one cannot use it.
    #[error("the schema of the database needs weir {needed} or later; this is {}", env!("CARGO_PKG_VERSION"))]
    Later {
        /// The lowest version that can use it.
        needed: String,
    },
    /// A live node could not use the schema that this version of weir needs.
    #[error(
        "the next schema needs weir {needed} or later, and the node `{node}` runs {version}: upgrade it first"
    )]
    OldNode {
        /// The lowest version that can use it.
        needed: String,
        /// Name of the node.
        node: String,
        /// Its version.
        version: String,
    },
    /// The database has the state of another fleet.
    #[error(
        "the database belongs to the fleet `{name}`: set `fleet.name`, or use another database"
    )]
    OtherFleet {
        /// The name of that fleet.
        name: String,
    },
}

/// The message of an error with its causes; the message of the server, if it is from there.
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} ({})", error.message(), error.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What a server says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Host and port.
    pub address: String,
    /// Version, as in `server_version`.
    pub version: String,
    /// Whether a commit waits for a standby; if not, a failover can lose commits.
    pub synchronous_standby: bool,
}

/// A connection.
pub struct Connection {
    client: Client,
    task: JoinHandle<()>,
    /// The server.
    pub server: Server,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects to the first server that accepts writes.
    ///
    /// # Errors
    /// There is none; the text has the reason of each server.
    pub async fn open(connect: &Connect) -> Result<Self, DatabaseError> {
        let mut reasons = Vec::new();
        for server in &connect.postgres.servers {
            let address = format!("{}:{}", server.host, server.port);
            let opened = timeout(CONNECT_TIMEOUT, Self::open_one(connect, server, &address)).await;
            match opened {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(DatabaseError::Connect(reason))) => reasons.push(reason),
                Ok(Err(error)) => reasons.push(format!("{address}: {error}")),
                Err(_) => {
                    reasons.push(format!("{address}: no response within {CONNECT_TIMEOUT:?}"))
                }
            }
        }
        Err(DatabaseError::Connect(reasons.join("; ")))
    }

    async fn open_one(
        connect: &Connect,
        server: &PostgresServer,
        address: &str,
    ) -> Result<Self, DatabaseError> {
        let failed = |reason: String| DatabaseError::Connect(format!("{address}: {reason}"));
        let place = (server.host.as_str(), server.port);
        let stream = TcpStream::connect(place).await.map_err(|error| failed(error.to_string()))?;
        // Statements are small and wait for their response.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let (client, task) = match (&connect.tls, &connect.postgres.tls) {
            (Some(tls), Some(settings)) => {
                let name = settings.server_name.as_ref().map(|name| name.to_str().into_owned());
                let name = name.unwrap_or_else(|| server.host.clone());
                let mut tls = MakeRustlsConnect::new(ClientConfig::clone(tls));
                let tls = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls, &name)
                    .map_err(|error| failed(error.to_string()))?;
                start(connect, stream, tls, true).await
            }
            (None, None) => start(connect, stream, NoTls, false).await,
            // TLS is never left out because it was not compiled.
            _ => return Err(failed("TLS is not configured".to_owned())),
        }
        .map_err(|error| failed(reason(&error)))?;
        let mut connection = Self { client, task, server: Server::default() };
        connection.server = connection.describe(address.to_owned()).await?;
        Ok(connection)
    }

    async fn describe(&self, address: String) -> Result<Server, DatabaseError> {
        let row = self
            .one(
                "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                 current_setting('synchronous_standby_names') <> '',
                 current_setting('transaction_read_only') = 'on'",
                &[],
            )
            .await?;
        let (number, version) = (row.try_get::<_, i32>(0)?, row.try_get(1)?);
        if number < MIN_SERVER {
            let message = format!("{address}: PostgreSQL {version} is older than 15");
            return Err(DatabaseError::Connect(message));
        }
        if row.try_get(3)? {
            return Err(DatabaseError::Connect(format!("{address}: read-only, a standby")));
        }
        Ok(Server { address, version, synchronous_standby: row.try_get(2)? })
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        within(self.client.query_typed(sql, parameters)).await
    }

    /// The only row of a query.
    pub(crate) async fn one(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Row, DatabaseError> {
        only(self.query(sql, parameters).await?)
    }

    /// Returns the number of rows.
    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, DatabaseError> {
        within(self.client.execute_typed(sql, parameters)).await
    }

    /// Starts a transaction. The server ends it with its session if no statement arrives for
    /// [`IDLE_TIMEOUT`]: the locks of a node that was suspended or cut off block nobody for longer.
    pub(crate) async fn transaction(&mut self) -> Result<Transaction<'_>, DatabaseError> {
        let transaction = Transaction(within(self.client.transaction()).await?);
        // `SET LOCAL`, since PgBouncer in transaction mode hands out sessions.
        transaction.batch(IDLE_TIMEOUT).await?;
        Ok(transaction)
    }
}

/// A transaction; dropped, it is rolled back.
pub(crate) struct Transaction<'a>(tokio_postgres::Transaction<'a>);

impl Transaction<'_> {
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DatabaseError> {
        within(self.0.query_typed(sql, parameters)).await
    }

    pub(crate) async fn one(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Row, DatabaseError> {
        only(self.query(sql, parameters).await?)
    }

    /// Returns the number of rows.
    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, DatabaseError> {
        within(self.0.execute_typed(sql, parameters)).await
    }

    /// Statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), DatabaseError> {
        within(self.0.batch_execute(sql)).await
    }

    pub(crate) async fn rollback(self) -> Result<(), DatabaseError> {
        within(self.0.rollback()).await
    }

    pub(crate) async fn commit(self) -> Result<(), DatabaseError> {
        within(self.0.commit()).await
    }
}

/// The only row of a result.
fn only(rows: Vec<Row>) -> Result<Row, DatabaseError> {
    rows.into_iter().next().ok_or(DatabaseError::Missing)
}

/// A number as the database stores it.
pub(crate) fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn within<T>(
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, DatabaseError> {
    match timeout(STATEMENT_TIMEOUT, statement).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(DatabaseError::Timeout),
    }
}

async fn start<T>(
    connect: &Connect,
    stream: TcpStream,
    tls: T,
    encrypted: bool,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error>
where
    T: TlsConnect<TcpStream>,
    T::Stream: Send + 'static,
{
    let mut config = tokio_postgres::Config::new();
    config.user(&connect.postgres.user).dbname(&connect.postgres.database);
    config.application_name("weir").ssl_mode(match encrypted {
        true => tokio_postgres::config::SslMode::Require,
        false => tokio_postgres::config::SslMode::Disable,
    });
    if let Some(password) = &connect.postgres.password {
        config.password(password);
    }
    let (client, connection) = config.connect_raw(stream, tls).await?;
    // Its error is that of the next statement.
    let task = tokio::spawn(async move { drop(connection.await) });
    Ok((client, task))
}
