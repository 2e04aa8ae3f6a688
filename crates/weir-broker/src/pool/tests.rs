use super::*;
use std::task::{Context, Poll, Waker};
use weir_model::pool::{AgentCounts, AgentScript, PoolQueue, Recycle};

fn config(max: usize, waiting: usize) -> weir_model::pool::Pool {
    weir_model::pool::Pool {
        name: "p".to_owned(),
        protocol: AgentProtocol::FastCgi,
        source: AgentSource::Connect(AgentAddress::Unix("/nowhere".into())),
        agents: AgentCounts { min: 0, initial: 0, max, starting: 1 },
        queue: PoolQueue { max: waiting, wait: Duration::from_secs(15) },
        recycle: Recycle::default(),
        timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(60),
        script: AgentScript::None,
        headers: Vec::new(),
        params: Vec::new(),
    }
}

fn pool(config: &weir_model::pool::Pool) -> Arc<Pool> {
    let invalidations = [Arc::default(), Arc::default()].into();
    Pool::new(config, Arc::default(), invalidations, Arc::new(|_| {}))
}

fn lease(pool: &Arc<Pool>, worker: usize) -> Lease {
    pool.lease(worker).unwrap().expect("an agent is free")
}

fn wait(pool: &Arc<Pool>, worker: usize) -> PendingLease {
    pool.lease(worker).unwrap().expect_err("no agent is free")
}

fn granted(waiting: &mut PendingLease) -> Option<Lease> {
    match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(granted) => Some(granted.unwrap()),
        Poll::Pending => None,
    }
}

fn lost(pool: &Pool, worker: usize) -> Vec<AgentId> {
    let mut lost = std::pin::pin!(pool.invalidations[worker].receive());
    match lost.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(lost) => lost,
        Poll::Pending => Vec::new(),
    }
}

#[test]
fn an_agent_goes_to_whoever_has_a_connection_to_it() {
    let pool = pool(&config(2, 10));
    let (one, two) = (lease(&pool, 0), lease(&pool, 1));
    let (first, second) = (one.agent(), two.agent());
    assert!(!one.is_connected() && first != second);
    assert!(one.release(Outcome::Keep) && two.release(Outcome::Keep));
    let again = lease(&pool, 1);
    assert_eq!((again.agent(), again.is_connected()), (second, true));
    // The other one is taken from its worker, which is snapshot.
    let taken = lease(&pool, 1);
    assert_eq!((taken.agent(), taken.is_connected()), (first, false));
    assert_eq!((lost(&pool, 0), lost(&pool, 1)), (vec![first], Vec::new()));
}

#[test]
fn who_waits_is_served_in_turn_and_nobody_overtakes() {
    let pool = pool(&config(1, 3));
    let busy = lease(&pool, 0);
    let mut waiting = [wait(&pool, 1), wait(&pool, 0), wait(&pool, 1)];
    assert_eq!(pool.lease(0).unwrap_err(), Refused::Full { retry: Duration::from_secs(1) });
    assert!(waiting.iter_mut().all(|waiting| granted(waiting).is_none()));
    // Released by worker 0, which has one waiting: it keeps its connection.
    assert!(busy.release(Outcome::Keep));
    assert!(granted(&mut waiting[0]).is_none());
    let own = granted(&mut waiting[1]).expect("its own worker's");
    assert!(own.is_connected());
    // Now only the other worker waits: the connection is not kept.
    assert!(!own.release(Outcome::Keep));
    let first = granted(&mut waiting[0]).expect("the first of the other worker");
    assert!(!first.is_connected() && granted(&mut waiting[2]).is_none());
    drop(first);
    assert!(granted(&mut waiting[2]).is_some());
    let snapshot = pool.snapshot();
    assert_eq!(
        (snapshot.queue.current, snapshot.queue.peak, snapshot.rejected_full, snapshot.served),
        (0, 3, 1, 2)
    );
    assert_eq!(snapshot.request_wait.count, 4);
}

#[test]
fn a_place_in_the_queue_is_given_up_by_leaving() {
    let pool = pool(&config(1, 1));
    let busy = lease(&pool, 0);
    drop(wait(&pool, 0));
    let late = wait(&pool, 1);
    assert!(matches!(late.expire(), Refused::Expired { .. }));
    let mut next = wait(&pool, 0);
    assert_eq!(pool.snapshot().queue.current, 1);
    assert!(busy.release(Outcome::Keep));
    // Served and gone at the same moment: nothing is lost.
    let (snapshot, _) = (pool.snapshot(), ());
    assert_eq!((snapshot.queue.current, snapshot.rejected_wait), (0, 1));
    let again = granted(&mut next).expect("it was its turn");
    assert!(again.release(Outcome::Keep));
    let busy = lease(&pool, 0);
    let waiting = wait(&pool, 0);
    assert!(busy.release(Outcome::Keep));
    drop(waiting);
    let last = lease(&pool, 0);
    assert!(last.is_connected(), "the connection that was granted and not used is still there");
}

#[test]
fn what_broke_off_gives_its_place_to_another() {
    let pool = pool(&config(1, 1));
    let mut broken = lease(&pool, 0);
    broken.mark_sent();
    let mut waiting = wait(&pool, 1);
    drop(broken);
    let next = granted(&mut waiting).expect("a new place");
    assert!(!next.is_connected());
    assert!(!next.release(Outcome::Kill));
    let snapshot = pool.snapshot();
    assert_eq!(
        (snapshot.agents, snapshot.killed, snapshot.served),
        (AgentStates { max: 1, ..AgentStates::default() }, 1, 0)
    );
}

#[test]
fn connections_are_closed_when_idle_too_old_or_in_the_way() {
    let mut settings = config(3, 1);
    settings.recycle =
        Recycle { requests: Some(2), idle: Some(Duration::from_secs(50)), ..Recycle::default() };
    let pool = pool(&settings);
    let one = lease(&pool, 0);
    let id = one.agent();
    assert!(one.release(Outcome::Keep));
    assert!(!lease(&pool, 0).release(Outcome::Keep), "it has had its two requests");
    let kept = lease(&pool, 0);
    let second = kept.agent();
    assert!(id != second && kept.release(Outcome::Keep));
    let now = Instant::now();
    pool.plan(now + Duration::from_secs(49));
    assert!(lost(&pool, 0).is_empty());
    pool.plan(now + Duration::from_secs(51));
    assert_eq!(lost(&pool, 0), [second]);

    let kept = lease(&pool, 0);
    let third = kept.agent();
    let other = lease(&pool, 1);
    assert!(kept.release(Outcome::Keep));
    other.mark_responding();
    pool.plan(now + Duration::from_secs(10));
    assert!(lost(&pool, 0).is_empty(), "whoever has answered has a process");
    let stalled = lease(&pool, 1);
    assert_ne!(stalled.agent(), other.agent());
    drop((stalled, other));
    let _ = third;
}

use crate::statistics::AgentStates;

/// A pool whose processes nobody starts.
fn processes(max: usize) -> (Arc<Pool>, weir_model::pool::Pool) {
    let program = weir_model::pool::Program {
        command: vec!["x".to_owned()],
        folder: "/".into(),
        env: Vec::new(),
        user: None,
        no_new_privileges: true,
        limits: weir_model::pool::ProgramLimits::default(),
        start_timeout: Duration::from_secs(1),
        stop_timeout: Duration::from_secs(1),
    };
    let mut settings = config(max, 10);
    settings.source = AgentSource::Start(program);
    settings.agents = AgentCounts { min: 1, initial: 2, max, starting: 2 };
    (pool(&settings), settings)
}

fn start(pool: &Pool, now: Instant) -> Vec<(AgentId, Arc<AgentControl>)> {
    pool.plan(now).start
}

#[test]
fn as_many_are_started_as_are_wanted_and_never_more_than_may_be() {
    let (pool, _) = processes(3);
    let now = Instant::now();
    let first = start(&pool, now);
    assert_eq!(first.len(), 2);
    let mut waiting: Vec<_> = (0..5).map(|_| wait(&pool, 0)).collect();
    assert!(start(&pool, now).is_empty(), "two are starting");
    for (id, _) in &first {
        pool.spawned(*id, id.0 as u32, AgentAddress::Unix("/s".into()));
        pool.mark_healthy(*id);
    }
    assert_eq!(waiting.iter_mut().filter_map(granted).map(std::mem::forget).count(), 2);
    let more = start(&pool, now);
    assert_eq!(more.len(), 1, "three is the most");
    pool.exited(more[0].0, ExitReason::StartFailed("why".to_owned()));
    assert_eq!(start(&pool, now).len(), 1, "one failure puts nothing off");
    assert_eq!(pool.snapshot().last_error.as_deref(), Some("why"));
}

#[test]
fn failures_in_a_row_put_starts_off_and_turn_requests_away() {
    let (pool, _) = processes(1);
    let now = Instant::now();
    let mut waiting = wait(&pool, 0);
    for _ in 0..3 {
        let started = start(&pool, now);
        assert_eq!(started.len(), 1);
        pool.exited(started[0].0, ExitReason::StartFailed("why".to_owned()));
    }
    let refused = match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(refused)) => refused,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused, Refused::Unavailable { .. }));
    assert!(matches!(pool.lease(0), Err(Refused::Unavailable { .. })));
    assert!(!pool.snapshot().ready);
    assert!(start(&pool, now).is_empty(), "it waits");
    let again = start(&pool, now + Duration::from_secs(31));
    assert_eq!(again.len(), 1);
    pool.mark_healthy(again[0].0);
    assert!(pool.snapshot().ready);
    assert!(lease(&pool, 0).release(Outcome::Keep));
    assert_eq!(pool.snapshot().last_error, None);
}

#[test]
fn a_replaced_agent_goes_when_another_serves() {
    let (pool, _) = processes(3);
    let now = Instant::now();
    let old = start(&pool, now);
    old.iter().for_each(|(id, _)| pool.mark_healthy(*id));
    pool.recycle();
    let new = start(&pool, now);
    assert_eq!(new.len(), 1);
    assert!(old.iter().all(|(_, control)| control.current() == AgentCommand::None));
    pool.mark_healthy(new[0].0);
    start(&pool, now);
    assert!(old.iter().all(|(_, control)| control.current() == AgentCommand::Stop));
    assert_eq!(pool.snapshot().restarted, 2);
}

#[test]
fn an_agent_that_is_not_known_to_be_well_is_asked_first() {
    let (pool, _) = processes(1);
    let now = Instant::now();
    let started = start(&pool, now);
    let (id, control) = &started[0];
    pool.mark_healthy(*id);
    let mut broken = lease(&pool, 0);
    broken.mark_sent();
    drop(broken);
    assert_eq!(control.current(), AgentCommand::Check);
    assert_eq!(pool.snapshot().agents.locked, 1);
    let mut waiting = wait(&pool, 0);
    assert!(granted(&mut waiting).is_none());
    pool.mark_healthy(*id);
    assert!(granted(&mut waiting).is_some_and(|lease| lease.agent() == *id));
}
