//! Rates divided among the nodes of a fleet.

use super::*;

fn node_limit(name: &str, rate: Rate) -> RateLimit {
    limit(name, Rate { scope: RateScope::Node, ..rate }, LimitKey::Address)
}

fn gate(nodes: u32) -> Gate {
    let shared = limit("shared", rate(20, 12), LimitKey::Address);
    let own = node_limit("own", rate(20, 12));
    let gate = Gate::new(config(Some(rate(4, 8)), None, vec![vec![], vec![shared], vec![own]]));
    gate.limiter.set_nodes(nodes, at(0));
    gate
}

#[test]
fn each_node_has_its_share_of_rate_and_burst() {
    let gate = gate(4);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2, "an eighth of 8 for each of 4 nodes");
    assert_eq!(gate.passed(Some(0), ONE, 0, 1), 1, "a quarter of 4/s");
    assert_eq!(gate.passed(None, ONE, 1, 0), 3);
    assert_eq!(gate.passed(None, ONE, 1, 10), 3);
}

#[test]
fn a_limit_of_each_node_is_not_divided() {
    assert_eq!(gate(4).passed(None, ONE, 2, 0), 12);
}

#[test]
fn failed_authentications_are_not_divided() {
    let mut config = config(None, None, vec![vec![]]);
    config.limits.failed_authentication = Some(rate(1, 3));
    let gate = Gate::new(config);
    gate.limiter.set_nodes(4, at(0));
    let address = ONE.parse().expect("an address");
    let counted = (0..9).filter(|_| gate.plan.authentication_failed(address, at(0)).is_ok());
    assert_eq!(counted.count(), 3);
}

#[test]
fn every_node_admits_a_request_however_many_there_are() {
    let gate = gate(1000);
    assert_eq!(gate.passed(None, ONE, 1, 0), 1);
    assert_eq!(gate.passed(None, ONE, 1, 49), 0, "20/s divided by 1,000");
    assert_eq!(gate.passed(None, ONE, 1, 50), 1);
}

#[test]
fn requests_stay_charged_when_nodes_join_and_leave() {
    let gate = gate(1);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 8);
    assert_eq!(gate.passed(None, ONE, 1, 0), 12);
    assert_eq!(gate.passed(None, ONE, 2, 0), 12);
    for nodes in [4, 4, 8] {
        gate.limiter.set_nodes(nodes, at(0));
        for (consumer, route) in [(Some(0), 0), (None, 1), (None, 2)] {
            assert_eq!(gate.passed(consumer, ONE, route, 0), 0, "{nodes} nodes, {route}");
        }
    }
    gate.limiter.set_nodes(0, at(1));
    assert_eq!(gate.limiter.nodes(), 1);
    // Two and three requests are charged to this node, whatever its share.
    gate.limiter.set_nodes(2, at(60));
    assert!((0..2).all(|_| gate.ask(Some(0), TWO, 0, 60).is_ok()));
    assert!((0..3).all(|_| gate.ask(None, ONE, 1, 60).is_ok()));
    gate.limiter.set_nodes(1, at(60));
    assert_eq!(gate.passed(Some(0), ONE, 0, 60), 6);
    assert_eq!(gate.passed(None, ONE, 1, 60), 9);
}

#[test]
fn a_reload_changes_the_share_of_this_node() {
    let mut gate = gate(4);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
    assert_eq!(gate.passed(None, ONE, 1, 0), 3);
    let larger = limit("shared", rate(20, 16), LimitKey::Address);
    gate.reload(config(Some(rate(4, 12)), None, vec![vec![], vec![larger]]), at(0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 1, "two of three are charged");
    assert_eq!(gate.passed(None, ONE, 1, 0), 1);
    // What this node is alone with is no share any more.
    let own = node_limit("shared", rate(20, 16));
    gate.reload(config(Some(rate(4, 12)), None, vec![vec![], vec![own]]), at(0));
    assert_eq!(gate.passed(None, ONE, 1, 0), 12, "four of sixteen are charged");
}

#[test]
fn statuses_have_the_number_of_nodes() {
    let gate = gate(4);
    let told = gate.plan.limit_statuses(&gate.config, at(0));
    let rate = told.consumers[0].rate.expect("a rate");
    assert_eq!((rate.burst, rate.remaining, rate.nodes), (2, 2, 4));
    let nodes: Vec<_> = told.limits.iter().map(|limit| (&*limit.limit, limit.nodes)).collect();
    assert_eq!(nodes, [("shared", 4), ("own", 1)]);
}
