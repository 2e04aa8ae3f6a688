//! Events and their rules.

use super::monitor::MONITOR;
use super::tracker::TRACKER;
use super::{Fields, Resolver};
use crate::config::{Api, Consumer};
use crate::formats;
use std::collections::HashSet;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, choices, integer, positive, text};
use weir_document::shape::{Group, Key, Kind, Shape, format};
use weir_model::UpstreamId;
use weir_model::events::{Alert, AlertRule, EndState, Sink, Trigger};

const NAMES: Kind = Kind::OneOrMany(&Kind::Format(format::NAME));

const TO: Key = Key::new("to", Kind::Format(format::NAME), "Upstream that receives the events: CloudEvents 1.0, one per POST. A delivery is retried until the status is 2xx or the event is a week old.").required();

const PATH: Defaulted<String> =
    text("path", Kind::Format(formats::BASE), "Path of the requests.").default("/");

const API: Key = Key::new("api", NAMES, "APIs that the rule applies to.").absent("all");

/// `events` of the Monitor.
pub(super) static EVENTS: Shape = Shape {
    misspellings: &[("url", "name an upstream: `to: NAME`"), ("upstream", "write `to`")],
    short: Some("to"),
    ..Shape::new(
        "the usage event export",
        "Usage events: one for each minute and combination of consumer, API, operation, plan and status class, sent after the end of the minute. If further calls are counted in a minute later, the event is sent again with a higher revision.",
        &[TO, PATH.key],
    )
};

const ALERT_AT_LEAST: Defaulted<u64> =
    integer("at_least", (1, u64::MAX), "Minimum number of calls for `error_rate` to apply.")
        .default("1");
const ALERT_OVER: Defaulted<Duration> =
    positive("over", "Window: calls of the last complete minutes, at most 7 days.").default("5m");

/// An item of `alerts`.
pub(super) static ALERT: Shape = Shape {
    groups: &[Group { keys: &["calls", "error_rate"], required: true }],
    misspellings: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("window", "write `over`"),
    ],
    ..Shape::new(
        "an alert",
        "A usage rule that sends one event each time its condition becomes true. It evaluates counted calls.",
        &[
            Key::new("name", Kind::Format(format::NAME), "Name of the alert.").required(),
            Key::new("calls", Kind::Integer(1, u64::MAX), "Alert above this number of calls."),
            Key::new(
                "error_rate",
                Kind::Format(format::PERCENT),
                "Alert above this share of calls that got no response or a status of 500 or above.",
            ),
            ALERT_AT_LEAST.key,
            ALERT_OVER.key,
            API,
            Key::new("consumer", NAMES, "Consumers that the rule applies to.")
                .absent("all, also calls without a consumer"),
            TO,
            PATH.key,
        ],
    )
};

const TRIGGER_STATE: Defaulted<Vec<EndState>> =
    choices("state", "State of the transaction at its end.").default("failed");

/// An item of `triggers`.
pub(super) static TRIGGER: Shape = Shape {
    misspellings: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("status", "write `state`"),
    ],
    ..Shape::new(
        "a trigger",
        "A rule on transactions that sends one event for each matching one. The event has no payload; authorized users can look up the transaction.",
        &[
            Key::new("name", Kind::Format(format::NAME), "Name of the trigger.").required(),
            API,
            TRIGGER_STATE.key,
            Key::new(
                "key",
                Kind::Format(format::NAME),
                "Business key that the transaction must have.",
            ),
            Key::new("value", Kind::Text, "Value that the business key must have.").absent("any"),
            TO,
            PATH.key,
        ],
    )
};

/// Maximum number of alerts, and of triggers.
const MAX_RULES: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Resolver<'_> {
    /// `monitor.events`.
    pub(super) fn events(&mut self, root: &Fields<'_>) -> Option<Sink> {
        let monitor = root.object("monitor", &MONITOR)?;
        let fields = monitor.object("events", &EVENTS)?;
        self.sink(&fields, &PATH)
    }

    pub(super) fn sink(&mut self, fields: &Fields<'_>, path: &Defaulted<String>) -> Option<Sink> {
        let node = fields.get("to")?;
        let name = node.text()?;
        let upstream = self.upstreams.find(name, node.at, self.report).map(UpstreamId)?;
        if self.http2.iter().any(|one| one == name) {
            let message = format!("events are sent over HTTP/1.1, but `{name}` uses HTTP/2");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `protocol: http2`");
            return None;
        }
        if self.services.iter().any(|one| one == name) {
            let message = format!("events cannot be sent to the service (SRV) of `{name}`");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("use an upstream without `srv+`");
            return None;
        }
        let path = fields.read(path);
        Some(Sink { upstream, name: name.to_owned(), path })
    }

    /// `monitor.alerts`.
    pub(super) fn alerts(
        &mut self,
        root: &Fields<'_>,
        apis: &[Api],
        consumers: &[Consumer],
    ) -> Vec<Alert> {
        let Some(monitor) = root.object("monitor", &MONITOR) else { return Vec::new() };
        let nodes = self.bounded(monitor.many("alerts"), "alerts");
        let mut names = HashSet::new();
        let alerts = nodes.iter().filter_map(|node| {
            let fields = Fields::new(node, &ALERT);
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
        let rule = match (fields.integer("calls"), fields.text("error_rate")) {
            (Some(above), _) => Some(AlertRule::Calls { above }),
            (None, Some(text)) => weir_document::units::percent(text).ok().map(|above| {
                AlertRule::ErrorRate { above, at_least: fields.read(&ALERT_AT_LEAST) }
            }),
            (None, None) => None,
        };
        if let (Some(node), None) = (fields.get("at_least"), fields.get("error_rate")) {
            self.report.error(codes::CONFLICT, node.at, "`at_least` needs `error_rate`");
        }
        let over = fields.read(&ALERT_OVER);
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
        let (sink, name) = (self.sink(fields, &PATH), fields.text("name"));
        Some(Alert { name: name?.to_owned(), rule: rule?, over, apis, consumers, sink: sink? })
    }

    /// `tracker.triggers`.
    pub(super) fn triggers(&mut self, root: &Fields<'_>, apis: &[Api]) -> Vec<Trigger> {
        let Some(tracker) = root.object("tracker", &TRACKER) else { return Vec::new() };
        let known: Vec<&str> = tracker.members("keys").iter().map(|m| m.key.as_str()).collect();
        let nodes = self.bounded(tracker.many("triggers"), "triggers");
        let mut names = HashSet::new();
        let triggers = nodes.iter().filter_map(|node| {
            let fields = Fields::new(node, &TRIGGER);
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
        let states = fields.read(&TRIGGER_STATE);
        let (sink, name) = (self.sink(fields, &PATH), fields.text("name"));
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

    fn known_names(&mut self, what: &str, nodes: &[Node], known: &[&str]) -> Vec<String> {
        let found = nodes.iter().filter_map(|node| self.one_of(what, node, known));
        found.map(|index| known[index].to_owned()).collect()
    }
}
