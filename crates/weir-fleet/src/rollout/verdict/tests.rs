use super::*;
use crate::versions::Rejected;

/// The time of a stage, and a node that was connected all the time.
const LONG: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(3600));

/// Nodes that have version 2 and have responded to 1,000 calls.
fn nodes(count: usize) -> Vec<NodeStatus> {
    let node = |number: usize| NodeStatus {
        id: format!("id-{number:02}"),
        name: format!("web-{number:02}"),
        state: NodeState::Live,
        boot: 1,
        silent_seconds: 1.0,
        in_force: Some(NodeVersion {
            version: Some(2),
            ready: true,
            calls: 1000,
            ..NodeVersion::default()
        }),
        ..NodeStatus::default()
    };
    (1..=count).map(node).collect()
}

fn report(node: &mut NodeStatus) -> &mut NodeVersion {
    node.in_force.as_mut().unwrap()
}

/// A rollout of version 2 whose first stage is over.
fn rollout() -> Rollout {
    Rollout {
        id: 5,
        version: Some(2),
        base: Some(1),
        nodes: vec!["id-01".to_owned()],
        stage_seconds: 125.0,
        ..Rollout::default()
    }
}

fn verdict(rollout: &Rollout, nodes: &[NodeStatus]) -> String {
    let start = self::nodes(nodes.len());
    match judge(rollout, &Counts::at_start(&start), nodes, LONG) {
        Step::Fail(reason) => reason,
        step => format!("{step:?}"),
    }
}

#[test]
fn stages_are_one_node_a_tenth_and_all_and_one_that_adds_no_node_is_left_out() {
    for (count, stages) in
        [(1, vec![]), (3, vec![3]), (10, vec![10]), (11, vec![2, 11]), (35, vec![4, 35])]
    {
        let (nodes, mut rollout) = (nodes(count), rollout());
        for expected in stages {
            let Step::Next { stage, nodes: chosen, .. } =
                judge(&rollout, &Counts::at_start(&nodes), &nodes, LONG)
            else {
                panic!("{count}")
            };
            assert_eq!((chosen.len(), &chosen[0][..]), (expected, "id-01"));
            rollout = Rollout { stage, nodes: chosen, ..rollout };
        }
        assert_eq!(judge(&rollout, &Counts::at_start(&nodes), &nodes, LONG), Step::Succeed);
    }
}

#[test]
fn a_stage_is_not_over_before_its_nodes_have_been_seen_after_its_end() {
    let mut nodes = nodes(3);
    let early = Rollout { stage_seconds: 119.0, ..rollout() };
    assert_eq!(verdict(&early, &nodes), "Wait");
    nodes[0].silent_seconds = 6.0;
    assert_eq!(verdict(&rollout(), &nodes), "Wait");
    nodes[0].silent_seconds = 1.0;
    let paused = Rollout { state: RolloutState::Paused, ..rollout() };
    assert_eq!(verdict(&paused, &nodes), "Wait");
    report(&mut nodes[0]).ready = false;
    assert_eq!(verdict(&rollout(), &nodes), "Wait");
    let late = Rollout { stage_seconds: 131.0, ..rollout() };
    assert_eq!(verdict(&late, &nodes), "web-01 is not ready");
    report(&mut nodes[0]).version = Some(1);
    assert_eq!(verdict(&late, &nodes), "web-01 has not taken it in time");
}

#[test]
fn a_node_that_rejects_ends_or_fails_ends_the_rollout() {
    let early = Rollout { stage_seconds: 3.0, ..rollout() };
    let mut nodes = nodes(3);
    let reason = "file:a.pass does not exist".to_owned();
    let rejected = Rejected { version: Some(2), rollout: 5, reason };
    report(&mut nodes[0]).rejected = Some(Rejected { rollout: 4, ..rejected.clone() });
    assert_eq!(verdict(&early, &nodes), "Wait", "another rollout");
    report(&mut nodes[0]).rejected = Some(rejected);
    assert_eq!(verdict(&early, &nodes), "web-01 rejected it: file:a.pass does not exist");
    let mut nodes = self::nodes(3);
    nodes[0].state = NodeState::Down;
    assert_eq!(verdict(&early, &nodes), "Wait", "it may come back");
    nodes[0].silent_seconds = 11.0;
    assert_eq!(verdict(&early, &nodes), "web-01 has sent no heartbeat for 11 s");
    // One that is not in the stage is none of its business.
    let mut nodes = self::nodes(3);
    nodes[2].state = NodeState::Down;
    nodes[2].silent_seconds = 60.0;
    assert_eq!(verdict(&early, &nodes), "Wait");
}

#[test]
fn after_an_outage_of_the_database_nodes_have_time_to_come_back() {
    let mut nodes = nodes(3);
    nodes[0].state = NodeState::Down;
    nodes[0].silent_seconds = 300.0;
    let late = Rollout { stage_seconds: 400.0, ..rollout() };
    let start = Counts::at_start(&nodes);
    let after = |nodes: &[NodeStatus], seconds| {
        judge(&late, &start, nodes, (LONG.0, Duration::from_secs(seconds)))
    };
    assert_eq!(after(&nodes, 5), Step::Wait);
    let silent = "web-01 has sent no heartbeat for 11 s".to_owned();
    assert_eq!(after(&nodes, 11), Step::Fail(silent));
    nodes[0].state = NodeState::Live;
    nodes[0].silent_seconds = 1.0;
    assert!(matches!(after(&nodes, 5), Step::Next { .. }));
}

#[test]
fn errors_count_against_those_of_the_other_nodes() {
    let early = Rollout { stage_seconds: 3.0, ..rollout() };
    let mut nodes = nodes(3);
    report(&mut nodes[0]).calls += 199;
    report(&mut nodes[0]).errors += 199;
    assert_eq!(verdict(&early, &nodes), "Wait", "too few calls");
    report(&mut nodes[0]).calls += 201;
    let expected =
        "web-01 responded with 5xx to 199 of 400 calls (49.8 %), the other nodes to 0.0 %";
    assert_eq!(verdict(&early, &nodes), expected);
    // The upstream is down for all.
    for node in &mut nodes[1..] {
        report(node).calls += 400;
        report(node).errors += 196;
    }
    assert_eq!(verdict(&early, &nodes), "Wait");
    // Counts begin again with a boot.
    let mut nodes = self::nodes(3);
    nodes[0].boot = 2;
    *report(&mut nodes[0]) =
        NodeVersion { calls: 300, errors: 30, ..report(&mut nodes[0]).clone() };
    assert!(verdict(&early, &nodes).contains("30 of 300"), "{}", verdict(&early, &nodes));
    // In the last stage there are no others: what they had before counts.
    let ids = nodes.iter().map(|node| node.id.clone()).collect();
    let all = Rollout { stage: Stage::All, nodes: ids, ..early };
    assert!(verdict(&all, &nodes).contains("30 of 300"));
}

#[test]
fn the_first_node_is_not_the_one_that_drives() {
    assert_eq!(first(&nodes(3), "id-01").unwrap(), "id-02");
    assert_eq!(first(&nodes(1), "id-01").unwrap(), "id-01");
    let mut files = nodes(2);
    files[1].in_force = None;
    assert_eq!(first(&files, "id-01").unwrap(), "id-01");
    files[0].in_force = None;
    assert_eq!(first(&files, "id-01"), None);
}
