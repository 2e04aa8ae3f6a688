//! OpenID Connect for the console.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::tls::UPSTREAM_TLS;
use crate::config::{Api, GroupRights, Oidc, Scheme, Target};
use std::ops::RangeInclusive;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Fault, codes};
use weir_document::shape::format::target;

/// Maximum timeout of a request to the provider.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Most APIs of a group.
const MAX_APIS: usize = 64;
/// Times after which a sign-in of the command line may end.
const LOGIN: RangeInclusive<Duration> = Duration::from_secs(300)..=Duration::from_secs(24 * 3600);

impl Resolver<'_> {
    /// `admin.oidc`.
    pub(super) fn oidc(&mut self, fields: &Fields<'_>, apis: &[Api]) -> Option<Oidc> {
        let node = fields.get("issuer")?;
        let (issuer, server) = self.oidc_url(node)?;
        let url = match fields.get("url") {
            Some(node) => Some(self.oidc_url(node)?.0.trim_end_matches('/').to_owned()),
            None => None,
        };
        let tls = match (server.scheme, fields.object("tls", &UPSTREAM_TLS)) {
            (Scheme::Https, tls) => Some(self.upstream_tls(tls, node.at)?),
            (Scheme::Http, None) => None,
            (Scheme::Http, Some(tls)) => {
                let message = "the issuer is an `http` URL: there is no TLS";
                self.report.error(codes::CONFLICT, tls.node().at, message);
                return None;
            }
        };
        let mut roles = Vec::new();
        for item in fields.many("roles") {
            let fields = Fields::new(item, GroupRights::SHAPE);
            let group = fields.line("group")?.to_owned();
            self.apis_of_group(&fields, apis);
            roles.push(GroupRights::read(&fields, group));
        }
        if roles.is_empty() {
            let fault = Fault::value("nobody could sign in: there is no group");
            self.fault(
                fields.get("roles")?,
                fault.help("write `roles: [{group: NAME, role: viewer}]`"),
            );
            return None;
        }
        let oidc = Oidc::read(
            fields,
            issuer,
            fields.line("client_id")?.to_owned(),
            fields.line("client_secret").map(str::to_owned),
            roles,
            url,
            tls,
        );
        for (key, fits, range) in [
            ("timeout", oidc.timeout <= MAX_TIMEOUT, "at most 30s"),
            ("login", LOGIN.contains(&oidc.login), "from 5m to 24h"),
        ] {
            if let (Some(node), false) = (fields.get(key), fits) {
                self.fault(node, Fault::value(format!("`{key}` must be {range}")));
            }
        }
        Some(oidc)
    }

    /// The names of APIs. An empty list would be no limit: the shape rejects it.
    fn apis_of_group(&mut self, fields: &Fields<'_>, apis: &[Api]) {
        let Some(node) = fields.get("apis") else { return };
        let names = fields.many("apis");
        if names.len() > MAX_APIS {
            let fault = Fault::value(format!("`apis` has at most {MAX_APIS} names"));
            self.fault(node, fault.help("leave `apis` out for all APIs"));
        }
        let known: Vec<&str> = apis.iter().map(|api| api.name.as_str()).collect();
        self.known_names("API", names, &known);
    }

    /// A URL without query and fragment, and its server.
    fn oidc_url(&mut self, node: &Node) -> Option<(String, Target)> {
        let url = node.text()?.trim_end();
        let after = url.find("://").map_or(0, |at| at + 3);
        let path = url[after..].find('/').map_or(url.len(), |at| after + at);
        let fits = |b: u8| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b);
        let server = match target(&url[..path]) {
            Ok(server) if server.service.is_none() && server.socket.is_none() => server,
            Ok(_) => {
                self.fault(node, Fault::value("a URL needs a server").help("write `https://…`"));
                return None;
            }
            Err(fault) => {
                self.fault(node, fault);
                return None;
            }
        };
        if after == 0 || !url.bytes().all(fits) {
            let fault = Fault::value("not a URL without query and fragment");
            self.fault(node, fault.help("write `https://login.example.com`"));
            return None;
        }
        if server.scheme == Scheme::Http && !is_local(&server.host) {
            let fault = Fault::value("`http` is allowed for this machine only");
            self.fault(node, fault.help("write `https://…`"));
            return None;
        }
        Some((url.to_owned(), server))
    }
}
