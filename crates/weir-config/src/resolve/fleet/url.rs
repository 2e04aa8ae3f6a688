//! URLs of engines and of nodes: without secrets and parameters.

use crate::config::{Advertise, PostgresServer};
use crate::resolve::upstream::is_local;
use percent_encoding::percent_decode_str;
use url::Url;
use weir_document::finding::Fault;

/// Port of PostgreSQL.
const POSTGRES_PORT: u16 = 5432;
/// Port of Redis.
const REDIS_PORT: u16 = 6379;

/// What a URL of an admin listener looks like.
const ADVERTISE: &str = "write `https://10.0.0.7:9080`";

/// A kind of URL.
struct Engine {
    /// Name of the engine.
    name: &'static str,
    schemes: &'static [&'static str],
    /// What a URL looks like.
    example: &'static str,
}

const POSTGRES: Engine = Engine {
    name: "PostgreSQL",
    schemes: &["postgres", "postgresql"],
    example: "write `postgres://weir@db.example.com:5432/weir`",
};

const REDIS: Engine = Engine {
    name: "Redis",
    schemes: &["redis", "rediss"],
    example: "write `redis://redis.example.com:6379`, or `rediss://…` for TLS",
};

impl Engine {
    fn fault(&self, message: &str) -> Fault {
        Fault::value(message.to_owned()).help(self.example)
    }

    /// Parses a URL of the engine; returns it and its host.
    fn parse(&self, text: &str) -> Result<(Url, String), Fault> {
        let url = Url::parse(text).map_err(|error| self.fault(&format!("not a URL: {error}")))?;
        if !self.schemes.contains(&url.scheme()) {
            return Err(self.fault(&format!("not a URL of {}", self.name)));
        }
        if url.password().is_some() {
            let fault = Fault::value("a password does not belong into the URL");
            return Err(fault.help("write `password: \"file:PASSWORD_FILE\"`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            let fault = Fault::value("parameters are not supported in the URL");
            return Err(fault.help("TLS is set by `tls`; all other settings are built in"));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| self.fault("no host"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = self.decoded(host)?;
        Ok((url, host))
    }

    fn decoded(&self, text: &str) -> Result<String, Fault> {
        let decoded = percent_decode_str(text).decode_utf8().map(String::from);
        decoded.map_err(|_| self.fault("not UTF-8"))
    }
}

/// The parts of `postgres://USER@HOST:PORT/DATABASE`.
pub(super) struct PostgresUrl {
    pub(super) server: PostgresServer,
    pub(super) user: String,
    pub(super) database: String,
}

impl PostgresUrl {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let (url, host) = POSTGRES.parse(text)?;
        let user = POSTGRES.decoded(url.username())?;
        let database = POSTGRES.decoded(url.path().trim_start_matches('/'))?;
        if user.is_empty() || database.is_empty() || database.contains('/') {
            return Err(POSTGRES.fault("the URL needs a user and a database"));
        }
        let server = PostgresServer { host, port: url.port().unwrap_or(POSTGRES_PORT) };
        Ok(Self { server, user, database })
    }
}

/// The parts of `redis://HOST:PORT/DATABASE`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedisUrl {
    pub(super) host: String,
    pub(super) port: u16,
    /// Number of the database; 0 if there is none in the URL.
    pub(super) database: u16,
    /// The URL asks for TLS.
    pub(super) tls: bool,
}

impl RedisUrl {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let (url, host) = REDIS.parse(text)?;
        if !url.username().is_empty() {
            return Err(Fault::value("a user does not belong into the URL").help("write `user`"));
        }
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            number => {
                number.parse().map_err(|_| REDIS.fault("the database of Redis is a number"))?
            }
        };
        let port = url.port().unwrap_or(REDIS_PORT);
        Ok(Self { host, port, database, tls: url.scheme() == "rediss" })
    }
}

/// Parses `http[s]://HOST:PORT`; http only for this machine, unless `plain`.
pub(super) fn advertised(text: &str, plain: bool) -> Result<Advertise, Fault> {
    let fault = |message: &str| Fault::value(message.to_owned()).help(ADVERTISE);
    let url = Url::parse(text).map_err(|error| fault(&format!("not a URL: {error}")))?;
    let https = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(fault("neither an http nor an https URL")),
    };
    let is_bare = url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| fault("no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // `Url` leaves out the default port of the scheme.
    let port = url.port_or_known_default().filter(|port| *port != 0);
    let (true, Some(port)) = (is_bare, port) else {
        return Err(fault("the URL has a scheme, a host and a port only"));
    };
    if !https && !plain && !is_local(host) {
        let fault = Fault::value("requests to other machines need https");
        return Err(fault.help("set `admin.tls` and write https, or set `plain: true`"));
    }
    Ok(Advertise { https, host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_urls_are_bare_and_leave_the_machine_encrypted() {
        let of = |text: &str, plain| advertised(text, plain).map(|url| url.to_string()).ok();
        for (text, plain, shown) in [
            ("https://10.0.0.7:9080", false, "https://10.0.0.7:9080"),
            ("https://a.example.com/", false, "https://a.example.com:443"),
            ("https://[2001:db8::1]:9080", false, "https://[2001:db8::1]:9080"),
            ("http://127.0.0.1:9080", false, "http://127.0.0.1:9080"),
            ("http://[::1]:9080", false, "http://[::1]:9080"),
            ("http://10.0.0.7:9080", true, "http://10.0.0.7:9080"),
        ] {
            assert_eq!(of(text, plain).as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            "10.0.0.7:9080",
            "http://10.0.0.7:9080",
            "ftp://10.0.0.7:9080",
            "https://10.0.0.7:0",
            "https://a@10.0.0.7:9080",
            "https://10.0.0.7:9080/v1",
            "https://10.0.0.7:9080/?a",
        ] {
            assert_eq!(of(text, false), None, "{text}");
        }
    }

    #[test]
    fn urls_of_postgres_have_user_host_and_database() {
        let of =
            |text: &str| PostgresUrl::parse(text).map(|url| (url.server, url.user, url.database));
        let server = |host: &str, port| PostgresServer { host: host.to_owned(), port };
        let names = |user: &str, database: &str| (user.to_owned(), database.to_owned());
        for (text, host, port, (user, database)) in [
            ("postgres://weir@db/weir", "db", 5432, names("weir", "weir")),
            ("postgresql://a%40b@10.0.0.1:6432/x%20y", "10.0.0.1", 6432, names("a@b", "x y")),
            ("postgres://weir@[::1]:5433/weir", "::1", 5433, names("weir", "weir")),
        ] {
            assert_eq!(of(text).ok(), Some((server(host, port), user, database)), "{text}");
        }
        for text in [
            "",
            "weir",
            "mysql://weir@db/weir",
            "postgres://db/weir",
            "postgres://weir@db",
            "postgres://weir@db/",
            "postgres://weir@/weir",
            "postgres://weir:secret@db/weir",
            "postgres://weir@db/weir?sslmode=disable",
            "postgres://weir@db:99999/weir",
            "postgres://weir@db/a/b",
        ] {
            assert!(PostgresUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn urls_of_redis_have_a_host() {
        for (text, host, port, database, tls) in [
            ("redis://redis", "redis", 6379, 0, false),
            ("rediss://10.0.0.1:6380/", "10.0.0.1", 6380, 0, true),
            ("redis://[::1]/15", "::1", 6379, 15, false),
        ] {
            let expected = RedisUrl { host: host.to_owned(), port, database, tls };
            assert_eq!(RedisUrl::parse(text).ok(), Some(expected), "{text}");
        }
        for text in [
            "",
            "redis",
            "http://redis",
            "redis://",
            "redis://weir@redis",
            "redis://:secret@redis",
            "redis://redis/cache",
            "redis://redis/0/1",
            "redis://redis?db=1",
            "redis://redis/-1",
        ] {
            assert!(RedisUrl::parse(text).is_err(), "{text}");
        }
    }
}
