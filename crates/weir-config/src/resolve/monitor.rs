//! The Monitor, and which calls its rules are for.

use super::events::{ALERT, EVENTS};
use super::{Fields, Resolver};
use crate::config::{Api, Consumer, ConsumerId, CountRule, Counts, Monitor, Plan};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, boolean, integer, positive};
use weir_document::shape::{Key, Kind, Shape, format};

const NAMES: Kind = Kind::OneOrMany(&Kind::Format(format::NAME));

const ENABLED: Defaulted<bool> = boolean("enabled", "Whether calls are counted, by whatever asks for it. `false` leaves quotas to memory: they begin anew with the process.").default("true");
const KEEP: Defaulted<Duration> =
    positive("keep", "How long counts are kept, at least two days.").default("400d");
const CARDINALITY: Defaulted<usize> = integer("cardinality", (1, 1_000_000), "Most combinations of consumer, API, operation, plan and status class of a day (UTC). Further ones are counted as `(other)` operations, and beyond twice as many as `(other)` of everything.").default("10000");

/// `monitor`.
pub(super) static MONITOR: Shape = Shape {
    short: Some("count"),
    slips: &[
        ("retention", "write `keep`"),
        ("rules", "write `count`"),
        ("max_buckets", "write `cardinality`"),
    ],
    ..Shape::new(
        "the Monitor",
        "Counts of calls, for usage, limits and billing. Calls of a plan with a quota or a price are counted without a rule.",
        &[
            ENABLED.key,
            Key::new(
                "count",
                Kind::Either(&[Kind::Enum(&["all"]), Kind::OneOrMany(&Kind::Object(&COUNT))]),
                "Which calls are counted: `all`, or those that one of these rules is for.",
            )
            .absent("none"),
            Key::new(
                "counts",
                Kind::Object(&COUNTS),
                "What counts as a call. It decides when calls are counted, not when they are made.",
            ),
            KEEP.key,
            CARDINALITY.key,
            Key::new("events", Kind::Object(&EVENTS), "Where counts are posted to."),
            Key::new(
                "alerts",
                Kind::List(&Kind::Object(&ALERT)),
                "Rules on usage that post an event each time they begin to hold.",
            ),
        ],
    )
};

/// A rule of `count`.
pub(super) static COUNT: Shape = Shape {
    slips: &[
        ("route", "write `operation`"),
        ("op", "write `operation`"),
        ("apis", "write `api`"),
        ("operations", "write `operation`"),
        ("consumers", "write `consumer`"),
    ],
    ..Shape::new(
        "a rule of what is counted",
        "Calls that it is for: all its keys have to fit; of several names one.",
        &[
            Key::new("api", NAMES, "APIs.").required(),
            Key::new(
                "operation",
                Kind::OneOrMany(&Kind::Text),
                "Operations: their `op`, or as `weir routes` shows them.",
            )
            .absent("all"),
            Key::new("consumer", NAMES, "Consumers.").absent("all, and who is none"),
        ],
    )
};

const COUNT_REJECTED: Defaulted<bool> = boolean("rejected", "Calls that were turned away before anything was done about them: credentials, limits, size of the body.").default("false");
const COUNT_FAILED: Defaulted<bool> = boolean(
    "failed",
    "Calls that ended with status 500 or above, or were broken off by the upstream.",
)
.default("true");
const COUNT_INTERRUPTED: Defaulted<bool> =
    boolean("interrupted", "Calls without a whole answer: the client left, or weir ended.")
        .default("true");
const COUNT_RETRIED: Defaulted<bool> = boolean(
    "retried",
    "Calls that weir had to send to an upstream more than once; each of them is one call.",
)
.default("true");
const COUNT_RESUBMITTED: Defaulted<bool> =
    boolean("resubmitted", "Calls that an operator resubmitted.").default("false");

/// `counts` of the Monitor.
pub(super) static COUNTS: Shape = Shape::new(
    "what counts",
    "What counts as a call; one that is of several of these kinds counts if all of them do.",
    &[
        COUNT_REJECTED.key,
        COUNT_FAILED.key,
        COUNT_INTERRUPTED.key,
        COUNT_RETRIED.key,
        COUNT_RESUBMITTED.key,
    ],
);

/// The shortest time that counts are kept: quotas are put together from them.
const SHORTEST: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// A month, and one to make its invoice in.
const TO_BILL: Duration = Duration::from_secs(62 * 24 * 60 * 60);

impl Resolver<'_> {
    /// The Monitor; `apis` get its rules.
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
        let mut who = Vec::new();
        for node in rule.many("consumer") {
            who.extend(self.one_of("consumer", node, &names).map(ConsumerId));
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
        let mut wanted = Vec::new();
        for node in operations {
            // With an API that is not there, nothing is known of its operations.
            if !found.is_empty() && found.len() == rule.many("api").len() {
                wanted
                    .extend(self.one_of("operation", node, &known).map(|at| known[at].to_owned()));
            }
        }
        for api in found {
            for route in &mut apis[api].routes {
                if operations.is_empty() || wanted.contains(&route.operation) {
                    add(&mut route.count, everybody, &who);
                }
            }
        }
    }

    /// The index of the name a node says, or a finding.
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

fn add(rule: &mut CountRule, everybody: bool, who: &[ConsumerId]) {
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
    all.extend_from_slice(who);
    all.sort_unstable();
    all.dedup();
    *rule = CountRule::Consumers(all);
}

/// The Monitor without what refers to something else.
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
