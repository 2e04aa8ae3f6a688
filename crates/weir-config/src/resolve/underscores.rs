//! Headers with an underscore or a dot in the name, which upstreams receive only if listed.

use super::Resolver;
use crate::config::{Api, ApiKeySource, Auth, AuthKind, Handler, Route, Upstream};
use crate::validation::Place;
use std::collections::BTreeSet;
use weir_document::draft::Member;
use weir_document::finding::codes;

impl Resolver<'_> {
    /// Warns of upstreams that do not receive a header which the configuration itself names.
    pub(super) fn warn_of_underscores(
        &mut self,
        members: &[&Member],
        upstreams: &[Option<Upstream>],
        auths: &[Option<Auth>],
        apis: &[Api],
    ) {
        let mut lost = vec![BTreeSet::new(); upstreams.len()];
        for route in apis.iter().flat_map(|api| &api.routes) {
            let Handler::Proxy(proxy) = &route.handler else { continue };
            let others = proxy.instead.iter().map(|instead| instead.upstream);
            for id in std::iter::once(proxy.upstream).chain(others) {
                let Some(Some(upstream)) = upstreams.get(id.0) else { continue };
                let passed = &upstream.underscores_in_headers;
                let is_lost = |name: &&str| {
                    name.contains(['_', '.'])
                        && !passed.iter().any(|listed| listed == "*" || listed == name)
                };
                lost[id.0].extend(named(route, auths).filter(is_lost).map(str::to_owned));
            }
        }
        for (member, lost) in members.iter().zip(lost).filter(|(_, lost)| !lost.is_empty()) {
            let lost: Vec<String> = lost.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "requests have {} with an underscore or dot in the name, which the upstream does \
                 not receive",
                lost.join(", ")
            );
            self.report
                .warning(codes::UNDERSCORE_HEADER, member.at, message)
                .help("list the names: `underscores_in_headers: [x_name]`");
        }
    }
}

/// Request headers in the description of a route or in its business keys.
fn named<'r>(route: &'r Route, auths: &'r [Option<Auth>]) -> impl Iterator<Item = &'r str> {
    let described = route.validation.iter().flat_map(|validation| &validation.parameters);
    let described = described.filter(|parameter| parameter.place == Place::Header);
    let keys = route.access.any_of.iter().filter_map(|rule| {
        match &auths.get(rule.auth.0)?.as_ref()?.kind {
            AuthKind::ApiKey(ApiKeySource::Header(name)) => Some(name.as_str()),
            _ => None,
        }
    });
    described.map(|parameter| parameter.name.as_str()).chain(keys)
}
