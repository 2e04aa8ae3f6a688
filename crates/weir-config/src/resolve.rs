//! From draft to Config: names become indexes, files are parsed, expressions are compiled.
//!
//! The check has reported malformed values. The resolution reports errors that involve more than
//! one key, and skips malformed values.

mod absolute_path;
mod api;
mod archive;
mod auth;
mod body_map;
mod cache;
mod calls;
mod compression;
mod credential;
mod events;
mod exposure;
mod files;
mod fleet;
mod health;
mod introspect;
mod jwt;
mod kafka;
mod listener;
mod monitor;
mod normalization;
mod oidc;
mod openapi;
mod plan;
mod pool;
mod proxy;
mod reply;
mod resubmit;
mod retries;
mod root;
mod route;
mod script;
mod search_sink;
mod server;
mod telemetry;
mod tls;
mod tracker;
mod underscores;
mod upgrade;
mod upstream;
mod xml;

pub(crate) use root::{INCLUDED, ROOT};

use crate::config::tracker::TrackerKeys;
use crate::config::{AuthId, Config, Drain, Uncompiled, Upstream};
use std::collections::HashMap;
use weir_document::draft::{Draft, Member, Node};
use weir_document::finding::{Diagnostics, Fault, codes};
use weir_document::shape::fields::Fields;
use weir_document::source_map::Span;

/// Context of the resolution.
pub(crate) struct Resolver<'a> {
    draft: &'a Draft,
    report: &'a mut Diagnostics,
    upstreams: Index<'a>,
    /// Names of the upstreams with HTTP/2.
    http2: Vec<String>,
    /// Names of the upstreams with a service among their targets.
    services: Vec<String>,
    pools: Index<'a>,
    auths: Index<'a>,
    plans: Index<'a>,
    /// Servers of URLs; they follow the configured upstreams.
    servers: Vec<Upstream>,
    /// Locations of the routes of the current API, in order.
    routes_at: Vec<Span>,
    uncompiled: Uncompiled,
}

/// Names of one kind, in the order of definition, and whether they are used.
struct Index<'a> {
    kind: &'static str,
    names: HashMap<&'a str, usize>,
    order: Vec<(&'a str, Span)>,
    used: Vec<bool>,
}

impl<'a> Index<'a> {
    fn new(kind: &'static str, members: &[&'a Member]) -> Self {
        let order: Vec<_> = members.iter().map(|m| (m.key.as_str(), m.at)).collect();
        let names = order.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
        Self { kind, names, used: vec![false; order.len()], order }
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    /// Index of the name in `node`, or a finding.
    fn find(&mut self, name: &str, at: Span, report: &mut Diagnostics) -> Option<usize> {
        if let Some(index) = self.names.get(name) {
            self.used[*index] = true;
            return Some(*index);
        }
        let near = report.suggestion(name, self.order.iter().map(|(name, _)| *name));
        let diagnostic =
            report.error(codes::UNKNOWN_NAME, at, format!("unknown {} `{name}`", self.kind));
        match near {
            Some(near) => diagnostic.help(near),
            None if self.order.is_empty() => {
                diagnostic.help(format!("no {} is defined", self.kind))
            }
            None => diagnostic.help(format!(
                "defined: {}",
                self.order
                    .iter()
                    .take(8)
                    .map(|(n, _)| format!("`{n}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        };
        None
    }
}

/// Resolves a checked draft. The Config is valid only if the report has no errors.
pub(crate) fn resolve(draft: &Draft, report: &mut Diagnostics) -> (Option<Config>, Uncompiled) {
    let tables = |name| draft.table(name);
    let (upstreams, auths, plans) = (tables("upstreams"), tables("auth"), tables("plans"));
    let pools = tables("pools");
    let mut resolver = Resolver {
        upstreams: Index::new("upstream", &upstreams),
        http2: Vec::new(),
        services: Vec::new(),
        pools: Index::new("pool", &pools),
        auths: Index::new("auth", &auths),
        plans: Index::new("plan", &plans),
        draft,
        report,
        servers: Vec::new(),
        routes_at: Vec::new(),
        uncompiled: Uncompiled::default(),
    };
    let root = Fields::new(&draft.root, &ROOT);
    let members = upstreams.clone();
    let upstreams = upstreams.iter().map(|m| resolver.upstream(m)).collect::<Vec<_>>();
    let pools = pools.iter().map(|m| resolver.pool(m)).collect::<Vec<_>>();
    let auths =
        auths.iter().enumerate().map(|(id, m)| resolver.auth(AuthId(id), m)).collect::<Vec<_>>();
    let plans: Vec<_> = plans.iter().filter_map(|m| resolver.plan(m)).collect();
    let consumers: Vec<_> =
        tables("consumers").iter().filter_map(|m| resolver.consumer(m)).collect();
    let limits = resolver.limits(&root);
    let tracker = root.object("tracker", TrackerKeys::SHAPE);
    let capture = tracker.and_then(|tracker| resolver.capture(&tracker));
    let mut apis = resolver.apis(&tables("apis"), &limits, capture.unwrap_or_default());
    let mut monitor = resolver.monitor(&root, &plans, &consumers, &mut apis);
    monitor.events = resolver.events(&root);
    monitor.alerts = resolver.alerts(&root, &apis, &consumers);
    let telemetry = resolver.telemetry(&root, &upstreams);
    let fleet = resolver.fleet(&root);
    let listen = resolver.listeners(&root);
    resolver.warn_of_certificates(&root);
    let admin = resolver.admin(&root, &apis);
    resolver.warn_of_node_certificates(fleet.as_ref(), &admin);
    let drain = Drain::read(&root.object_or_empty("drain", Drain::SHAPE));
    let access_log = resolver.access_log(&root);
    let mut tracker = resolver.tracker(&root);
    let journal = resolver.journal(&root, &tracker);
    tracker.triggers = resolver.triggers(&root, &apis);
    (tracker.sinks, tracker.kafka) = resolver.sinks(&root, &upstreams, &tracker);
    let (data, scripts) = (resolver.data(&root), resolver.scripts(&root));
    let servers = std::mem::take(&mut resolver.servers).into_iter().map(Some);
    resolver.warn_of_underscores(&members, &upstreams, &auths, &apis);
    resolver.warn_unused();
    resolver.warn_of_exposure(&root, &listen, &admin, &data);
    let uncompiled = std::mem::take(&mut resolver.uncompiled);
    let config = || {
        Some(Config {
            listen,
            admin,
            data,
            workers: server::workers(&root),
            io: server::io(&root),
            limits,
            drain,
            access_log,
            journal,
            tracker,
            monitor,
            fleet,
            telemetry,
            scripts,
            upstreams: upstreams.into_iter().chain(servers).collect::<Option<_>>()?,
            pools: pools.into_iter().collect::<Option<_>>()?,
            auths: auths.into_iter().collect::<Option<_>>()?,
            plans,
            consumers,
            apis,
            sources: draft.files.iter().chain(report.read_files()).cloned().collect(),
        })
    };
    (config(), uncompiled)
}

impl Resolver<'_> {
    /// Unused upstreams and plans are probably mistakes.
    fn warn_unused(&mut self) {
        // With errors, the users of a name may be missing.
        if self.report.has_errors() {
            return;
        }
        for index in [&self.upstreams, &self.pools, &self.auths, &self.plans] {
            for ((name, at), used) in index.order.iter().zip(&index.used) {
                if !used {
                    let message = format!("unused {} `{name}`", index.kind);
                    self.report.warning_if_valid(codes::UNUSED, *at, message);
                }
            }
        }
    }

    /// Reports a fault at a node.
    fn fault(&mut self, node: &Node, fault: Fault) {
        self.report.error(fault.code, node.at, fault.message).maybe_help(fault.help);
    }
}

#[cfg(test)]
mod tests;
