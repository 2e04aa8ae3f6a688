//! Events and their rules.

use super::{Fields, Resolver};
use crate::config::events::{AlertKeys, EVENTS, TriggerKeys};
use crate::config::monitor::MonitorKeys;
use crate::config::tracker::TrackerKeys;
use crate::config::{Api, Consumer};
use std::collections::HashSet;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_model::UpstreamId;
use weir_model::events::{Alert, AlertRule, Sink, Trigger};

/// Maximum number of alerts, and of triggers.
const MAX_RULES: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Resolver<'_> {
    /// `monitor.events`.
    pub(super) fn events(&mut self, root: &Fields<'_>) -> Option<Sink> {
        let monitor = root.object("monitor", MonitorKeys::SHAPE)?;
        let fields = monitor.object("events", &EVENTS)?;
        self.sink(&fields)
    }

    pub(super) fn sink(&mut self, fields: &Fields<'_>) -> Option<Sink> {
        let node = fields.get("to")?;
        let upstream = self.http1_upstream(node, "events are")?;
        let path = fields.line_or_default("path");
        Some(Sink { upstream, name: node.text()?.to_owned(), path })
    }

    /// The upstream of a background task, which sends requests over HTTP/1.1 to the targets as they
    /// are written; `subject` is what is sent.
    pub(super) fn http1_upstream(&mut self, node: &Node, subject: &str) -> Option<UpstreamId> {
        let name = node.text()?;
        let upstream = self.upstreams.find(name, node.at, self.report).map(UpstreamId)?;
        if self.http2.iter().any(|one| one == name) {
            let message = format!("{subject} sent over HTTP/1.1, but `{name}` uses HTTP/2");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `protocol: http2`");
            return None;
        }
        if self.services.iter().any(|one| one == name) {
            let what = subject.trim_end_matches(" are");
            let message = format!("{what} cannot be sent to the service (SRV) of `{name}`");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `srv+`");
            return None;
        }
        Some(upstream)
    }

    /// `monitor.alerts`.
    pub(super) fn alerts(
        &mut self,
        root: &Fields<'_>,
        apis: &[Api],
        consumers: &[Consumer],
    ) -> Vec<Alert> {
        let Some(monitor) = root.object("monitor", MonitorKeys::SHAPE) else { return Vec::new() };
        let nodes = self.bounded(monitor.many("alerts"), "alerts");
        let mut names = HashSet::new();
        let alerts = nodes.iter().filter_map(|node| {
            let fields = Fields::new(node, AlertKeys::SHAPE);
            self.new_name(&fields, &mut names);
            self.alert(&fields, apis, consumers)
        });
        alerts.collect()
    }

    fn alert(
        &mut self,
        fields: &Fields<'_>,
        apis: &[Api],
        consumers: &[Consumer],
    ) -> Option<Alert> {
        let AlertKeys { at_least, over } = AlertKeys::read(fields);
        let rule = match (fields.integer("calls"), fields.text("error_rate")) {
            (Some(above), _) => Some(AlertRule::Calls { above }),
            (None, Some(text)) => weir_document::units::percent(text)
                .ok()
                .map(|above| AlertRule::ErrorRate { above, at_least }),
            (None, None) => None,
        };
        if let (Some(node), None) = (fields.get("at_least"), fields.get("error_rate")) {
            self.report.error(codes::CONFLICT, node.at, "`at_least` needs `error_rate`");
        }
        if let Some(node) = fields.get("over")
            && (over < MINUTE || over > WEEK || !over.as_secs().is_multiple_of(60))
        {
            let message = "`over` must be a multiple of 1m, at most 7d";
            self.report.error(codes::BAD_VALUE, node.at, message);
        }
        let apis: Vec<&str> = apis.iter().map(|api| api.name.as_str()).collect();
        let consumers: Vec<&str> = consumers.iter().map(|c| c.name.as_str()).collect();
        let apis = self.known_names("API", fields.many("api"), &apis);
        let consumers = self.known_names("consumer", fields.many("consumer"), &consumers);
        let (sink, name) = (self.sink(fields), fields.text("name"));
        Some(Alert { name: name?.to_owned(), rule: rule?, over, apis, consumers, sink: sink? })
    }

    /// `tracker.triggers`.
    pub(super) fn triggers(&mut self, root: &Fields<'_>, apis: &[Api]) -> Vec<Trigger> {
        let Some(tracker) = root.object("tracker", TrackerKeys::SHAPE) else { return Vec::new() };
        let known: Vec<&str> = tracker.members("keys").iter().map(|m| m.key.as_str()).collect();
        let nodes = self.bounded(tracker.many("triggers"), "triggers");
        let mut names = HashSet::new();
        let triggers = nodes.iter().filter_map(|node| {
            let fields = Fields::new(node, TriggerKeys::SHAPE);
            self.new_name(&fields, &mut names);
            self.trigger(&fields, apis, &known)
        });
        triggers.collect()
    }

    fn trigger(&mut self, fields: &Fields<'_>, apis: &[Api], keys: &[&str]) -> Option<Trigger> {
        let apis: Vec<&str> = apis.iter().map(|api| api.name.as_str()).collect();
        let apis = self.known_names("API", fields.many("api"), &apis);
        let key = fields.get("key").and_then(|node| {
            let name = self.known_names("business key", std::slice::from_ref(node), keys);
            Some((name.into_iter().next()?, fields.text("value").map(str::to_owned)))
        });
        if let (Some(node), None) = (fields.get("value"), fields.get("key")) {
            self.report.error(codes::CONFLICT, node.at, "`value` needs `key`");
        }
        let states = TriggerKeys::read(fields).state;
        let (sink, name) = (self.sink(fields), fields.text("name"));
        Some(Trigger { name: name?.to_owned(), apis, states, key, sink: sink? })
    }

    fn bounded<'n>(&mut self, nodes: &'n [Node], what: &str) -> &'n [Node] {
        if let Some(node) = nodes.get(MAX_RULES) {
            self.report.error(codes::TOO_MANY, node.at, format!("more than {MAX_RULES} {what}"));
        }
        &nodes[..nodes.len().min(MAX_RULES)]
    }

    fn new_name<'n>(&mut self, fields: &Fields<'n>, names: &mut HashSet<&'n str>) {
        if let Some(node) = fields.get("name")
            && node.text().is_some_and(|name| !names.insert(name))
        {
            self.report.error(codes::DUPLICATE_NAME, node.at, "duplicate name");
        }
    }

    pub(super) fn known_names(
        &mut self,
        what: &str,
        nodes: &[Node],
        known: &[&str],
    ) -> Vec<String> {
        let found = nodes.iter().filter_map(|node| self.one_of(what, node, known));
        found.map(|index| known[index].to_owned()).collect()
    }
}
