//! The fleet.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::fleet::POSTGRES;
use crate::config::tls::UPSTREAM_TLS;
use crate::config::{Fleet, Postgres, PostgresServer};
use percent_encoding::percent_decode_str;
use url::Url;
use weir_document::finding::{Fault, codes};

/// Port of PostgreSQL.
const PORT: u16 = 5432;
/// What a URL looks like.
const EXAMPLE: &str = "write `postgres://weir@db.example.com:5432/weir`";

/// The parts of a URL.
struct Place {
    server: PostgresServer,
    user: String,
    database: String,
}

impl Resolver<'_> {
    /// `fleet`.
    pub(super) fn fleet(&mut self, root: &Fields<'_>) -> Option<Fleet> {
        let fields = root.object("fleet", Fleet::SHAPE)?;
        let postgres = self.postgres(&fields.object("postgres", &POSTGRES)?)?;
        Some(Fleet::read(&fields, postgres))
    }

    fn postgres(&mut self, fields: &Fields<'_>) -> Option<Postgres> {
        let mut found: Option<(Vec<PostgresServer>, String, String)> = None;
        for node in fields.many("url") {
            let Place { server, user, database } = match place(node.text()?.trim_end()) {
                Ok(place) => place,
                Err(fault) => {
                    self.fault(node, fault);
                    return None;
                }
            };
            match &mut found {
                None => found = Some((vec![server], user, database)),
                Some((servers, of, at)) if (&*of, &*at) == (&user, &database) => {
                    servers.push(server)
                }
                Some(_) => {
                    let message = "all URLs must have the same user and database";
                    self.report.error(codes::CONFLICT, node.at, message);
                    return None;
                }
            }
        }
        let (servers, user, database) = found?;
        let tls = self.postgres_tls(fields, &servers)?;
        let password = fields.line("password").map(str::to_owned);
        Some(Postgres { servers, user, database, password, tls })
    }

    /// The TLS of connections, `Some(None)` for none; `None` with a finding.
    fn postgres_tls(
        &mut self,
        fields: &Fields<'_>,
        servers: &[PostgresServer],
    ) -> Option<Option<crate::config::UpstreamTls>> {
        let tls = fields.object("tls", &UPSTREAM_TLS);
        let plain = fields.bool("plain") == Some(true);
        if let (true, Some(own)) = (plain, &tls) {
            let message = "`plain` and `tls` exclude each other";
            self.report.error(codes::CONFLICT, own.node().at, message);
            return None;
        }
        let is_near = servers.iter().all(|server| is_local(&server.host));
        if plain || (tls.is_none() && is_near) {
            return Some(None);
        }
        self.upstream_tls(tls, fields.node().at).map(Some)
    }
}

/// Parses `postgres://USER@HOST:PORT/DATABASE`.
fn place(text: &str) -> Result<Place, Fault> {
    let fault = |message: &str| Fault::value(message.to_owned()).help(EXAMPLE);
    let url = Url::parse(text).map_err(|error| fault(&format!("not a URL: {error}")))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(fault("not a URL of PostgreSQL"));
    }
    if url.password().is_some() {
        let fault = Fault::value("a password does not belong into the URL");
        return Err(fault.help("write `password: \"file:postgres.password\"`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        let fault = Fault::value("parameters are not supported in the URL");
        return Err(fault.help("TLS is set by `tls`; all other settings are built in"));
    }
    let decoded = |text: &str| {
        percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| fault("not UTF-8"))
    };
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| fault("no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (user, database) = (decoded(url.username())?, decoded(url.path().trim_start_matches('/'))?);
    if user.is_empty() || database.is_empty() || database.contains('/') {
        return Err(fault("the URL needs a user and a database"));
    }
    let server = PostgresServer { host: decoded(host)?, port: url.port().unwrap_or(PORT) };
    Ok(Place { server, user, database })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_user_host_and_database() {
        let of = |text: &str| place(text).map(|place| (place.server, place.user, place.database));
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
            assert!(place(text).is_err(), "{text}");
        }
    }
}
