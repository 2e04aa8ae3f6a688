//! The Monitor, and which calls its rules are for.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{Api, Consumer, ConsumerId, CountRule, Counts, Monitor, Plan};
use crate::draft::Node;
use crate::finding::codes;
use std::time::Duration;

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
        let default = Monitor::default();
        let Some(fields) = root.object("monitor", &keys::MONITOR) else { return default };
        let enabled = fields.bool("enabled").unwrap_or(default.enabled);
        if let (false, Some(plan)) = (enabled, plans.iter().find(|plan| plan.is_counted()))
            && let Some(node) = fields.get("enabled")
        {
            let message = format!("the plan `{}` needs metering, which is off", plan.name);
            self.report
                .warning(codes::CONFLICT, node.at, message)
                .help("without metering, the quota restarts with every start");
        }
        let keep = fields.duration("keep").unwrap_or(default.keep);
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
        Monitor {
            enabled,
            keep,
            cardinality: fields.number("cardinality", default.cardinality),
            counts: counts(&fields, default.counts),
            ..default
        }
    }

    fn count_rule(&mut self, rule: &Node, consumers: &[Consumer], apis: &mut [Api]) {
        let rule = Fields::new(rule, &keys::COUNT);
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

fn counts(fields: &Fields<'_>, default: Counts) -> Counts {
    let Some(fields) = fields.object("counts", &keys::COUNTS) else { return default };
    let says = |key, default| fields.bool(key).unwrap_or(default);
    Counts {
        rejected: says("rejected", default.rejected),
        failed: says("failed", default.failed),
        interrupted: says("interrupted", default.interrupted),
        retried: says("retried", default.retried),
        resubmitted: says("resubmitted", default.resubmitted),
    }
}
