//! The Monitor and its metering rules.

use super::events::{ALERT, EVENTS};
use super::{Fields, Resolver};
use crate::config::{Api, Consumer, ConsumerId, CountRule, Monitor, Plan};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, boolean, integer, positive};
use weir_document::shape::{Key, Kind, Shape, format};
use weir_model::Counts;

const NAMES: Kind = Kind::OneOrMany(&Kind::Format(format::NAME));

const ENABLED: Defaulted<bool> = boolean(
    "enabled",
    "Metering of calls. With `false` quotas are kept in memory only and restart with the process.",
)
.default("true");
const KEEP: Defaulted<Duration> =
    positive("keep", "Retention of counts; minimum 2d.").default("400d");
const CARDINALITY: Defaulted<usize> = integer("cardinality", (1, 1_000_000), "Maximum number of combinations of consumer, API, operation, plan and status class per day (UTC). Further ones are counted with the operation `(other)`; beyond twice the maximum all fields are `(other)`.").default("10000");

/// `monitor`.
pub(super) static MONITOR: Shape = Shape {
    short: Some("count"),
    misspellings: &[
        ("retention", "write `keep`"),
        ("rules", "write `count`"),
        ("max_buckets", "write `cardinality`"),
    ],
    ..Shape::new(
        "the Monitor",
        "Metering of calls for usage, limits and billing. Calls of a plan with a quota or a price are counted without a rule.",
        &[
            ENABLED.key,
            Key::new(
                "count",
                Kind::Either(&[Kind::Enum(&["all"]), Kind::OneOrMany(&Kind::Object(&COUNT))]),
                "Metering rules: `all` calls, or those that match one of the rules.",
            )
            .absent("none"),
            Key::new(
                "counts",
                Kind::Object(&COUNTS),
                "Types of calls that are counted. The setting applies when calls are counted, not when they are made.",
            ),
            KEEP.key,
            CARDINALITY.key,
            Key::new("events", Kind::Object(&EVENTS), "Usage events."),
            Key::new(
                "alerts",
                Kind::List(&Kind::Object(&ALERT)),
                "Alerts: usage rules that send an event each time their condition becomes true.",
            ),
        ],
    )
};

/// A rule of `count`.
pub(super) static COUNT: Shape = Shape {
    misspellings: &[
        ("route", "write `operation`"),
        ("op", "write `operation`"),
        ("apis", "write `api`"),
        ("operations", "write `operation`"),
        ("consumers", "write `consumer`"),
    ],
    ..Shape::new(
        "a metering rule",
        "Calls that the rule counts: a call must match all keys, and one of several names in each.",
        &[
            Key::new("api", NAMES, "APIs.").required(),
            Key::new(
                "operation",
                Kind::OneOrMany(&Kind::Text),
                "Operations: their `op`, or the name that `weir routes` prints.",
            )
            .absent("all"),
            Key::new("consumer", NAMES, "Consumers.").absent("all, also calls without a consumer"),
        ],
    )
};

const COUNT_REJECTED: Defaulted<bool> =
    boolean("rejected", "Rejected calls: credentials, limits or body size.").default("false");
const COUNT_FAILED: Defaulted<bool> =
    boolean("failed", "Failed calls: status 500 or above, or aborted by the upstream.")
        .default("true");
const COUNT_INTERRUPTED: Defaulted<bool> = boolean(
    "interrupted",
    "Aborted calls: no complete response, because the client disconnected or weir stopped.",
)
.default("true");
const COUNT_RETRIED: Defaulted<bool> =
    boolean("retried", "Retried calls: sent to an upstream more than once. Each is one call.")
        .default("true");
const COUNT_RESUBMITTED: Defaulted<bool> =
    boolean("resubmitted", "Resubmitted calls: sent by an operator.").default("false");

/// `counts` of the Monitor.
pub(super) static COUNTS: Shape = Shape::new(
    "the counted call types",
    "Which types of calls are counted. A call of several types is counted if all of them are.",
    &[
        COUNT_REJECTED.key,
        COUNT_FAILED.key,
        COUNT_INTERRUPTED.key,
        COUNT_RETRIED.key,
        COUNT_RESUBMITTED.key,
    ],
);

/// Minimum retention of counts: quotas are restored from them.
const SHORTEST: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// A month, and a month to make its invoice.
const TO_BILL: Duration = Duration::from_secs(62 * 24 * 60 * 60);

impl Resolver<'_> {
    /// The Monitor; sets the rules of `apis`.
    pub(super) fn monitor(
        &mut self,
        root: &Fields<'_>,
        plans: &[Plan],
        consumers: &[Consumer],
        apis: &mut [Api],
    ) -> Monitor {
        let fields = root.object_or_empty("monitor", &MONITOR);
        let monitor = monitor(&fields);
        let (enabled, keep) = (monitor.enabled, monitor.keep);
        if let (false, Some(plan)) = (enabled, plans.iter().find(|plan| plan.is_counted()))
            && let Some(node) = fields.get("enabled")
        {
            let message = format!("the plan `{}` needs metering, which is off", plan.name);
            self.report
                .warning(codes::CONFLICT, node.at, message)
                .help("without metering, the quota restarts with every start");
        }
        if let Some(node) = fields.get("keep").filter(|_| keep < SHORTEST) {
            let message = "`keep` must be at least two days";
            self.report.error(codes::BAD_VALUE, node.at, message);
        }
        let priced = plans.iter().find(|plan| plan.price.is_some());
        if let Some(node) = fields.get("keep").filter(|_| keep >= SHORTEST && keep < TO_BILL)
            && let Some(plan) = priced
        {
            let message = format!(
                "the plan `{}` has a price, but calls are deleted before the end of a month",
                plan.name
            );
            self.report
                .warning(codes::CONFLICT, node.at, message)
                .help("a monthly invoice needs the entire month: use `62d` or more");
        }
        if fields.text("count") == Some("all") {
            apis.iter_mut().flat_map(|api| &mut api.routes).for_each(|route| {
                route.count = CountRule::Everybody;
            });
        } else {
            fields.many("count").iter().for_each(|rule| self.count_rule(rule, consumers, apis));
        }
        monitor
    }

    fn count_rule(&mut self, rule: &Node, consumers: &[Consumer], apis: &mut [Api]) {
        let rule = Fields::new(rule, &COUNT);
        let names: Vec<&str> = consumers.iter().map(|c| c.name.as_str()).collect();
        let mut counted = Vec::new();
        for node in rule.many("consumer") {
            counted.extend(self.one_of("consumer", node, &names).map(ConsumerId));
        }
        let everybody = rule.get("consumer").is_none();
        let names: Vec<String> = apis.iter().map(|api| api.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut found = Vec::new();
        for node in rule.many("api") {
            found.extend(self.one_of("API", node, &names));
        }
        let operations = rule.many("operation");
        let known: Vec<&str> = found
            .iter()
            .flat_map(|api| apis[*api].routes.iter().map(|route| route.operation.as_str()))
            .collect();
        let mut selected = Vec::new();
        for node in operations {
            // Without the API its operations are unknown.
            if !found.is_empty() && found.len() == rule.many("api").len() {
                selected
                    .extend(self.one_of("operation", node, &known).map(|at| known[at].to_owned()));
            }
        }
        for api in found {
            for route in &mut apis[api].routes {
                if operations.is_empty() || selected.contains(&route.operation) {
                    add(&mut route.count, everybody, &counted);
                }
            }
        }
    }

    /// The index of the name in a node, or a finding.
    pub(super) fn one_of(&mut self, what: &str, node: &Node, names: &[&str]) -> Option<usize> {
        let name = node.text()?;
        let found = names.iter().position(|known| *known == name);
        if found.is_none() {
            let near = self.report.suggestion(name, names.iter().copied());
            self.report
                .error(codes::UNKNOWN_NAME, node.at, format!("unknown {what} `{name}`"))
                .maybe_help(near);
        }
        found
    }
}

fn add(rule: &mut CountRule, everybody: bool, counted: &[ConsumerId]) {
    if everybody {
        *rule = CountRule::Everybody;
        return;
    }
    let mut all = match std::mem::take(rule) {
        CountRule::Everybody => {
            *rule = CountRule::Everybody;
            return;
        }
        CountRule::Nobody => Vec::new(),
        CountRule::Consumers(consumers) => consumers,
    };
    all.extend_from_slice(counted);
    all.sort_unstable();
    all.dedup();
    *rule = CountRule::Consumers(all);
}

/// The Monitor without references to other sections.
fn monitor(fields: &Fields<'_>) -> Monitor {
    let counts = fields.object_or_empty("counts", &COUNTS);
    Monitor {
        enabled: fields.read(&ENABLED),
        keep: fields.read(&KEEP),
        cardinality: fields.read(&CARDINALITY),
        counts: Counts {
            rejected: counts.read(&COUNT_REJECTED),
            failed: counts.read(&COUNT_FAILED),
            interrupted: counts.read(&COUNT_INTERRUPTED),
            retried: counts.read(&COUNT_RETRIED),
            resubmitted: counts.read(&COUNT_RESUBMITTED),
        },
        events: None,
        alerts: Vec::new(),
    }
}

impl Default for Monitor {
    fn default() -> Self {
        monitor(&Fields::empty(&MONITOR))
    }
}
