//! The Monitor and its metering rules.

use super::{Fields, Resolver};
use crate::config::monitor::{COUNT, MonitorKeys};
use crate::config::{Api, Consumer, ConsumerId, CountRule, Monitor, Plan};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;

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
        let fields = root.object_or_empty("monitor", MonitorKeys::SHAPE);
        let MonitorKeys { enabled, counts, keep, cardinality } = MonitorKeys::read(&fields);
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
        Monitor { enabled, keep, cardinality, counts, events: None, alerts: Vec::new() }
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
