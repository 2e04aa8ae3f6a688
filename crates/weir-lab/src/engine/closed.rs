//! Closed models: users that execute one iteration after the other.

use super::Level;
use super::event_loop::Loop;
use super::user::User;
use crate::program::{Planned, Stage, Users};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Interval in which the number of ramping users is adjusted and the grace period is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The users of a group on one loop.
#[derive(Debug)]
pub(super) struct UserGroup {
    /// Index of the group.
    pub(super) index: usize,
    /// Start of the group, in nanoseconds since the start of the run.
    pub(super) start: u64,
    /// No step starts after this time.
    pub(super) deadline: u64,
    /// The group runs even after a stop, to clean up.
    pub(super) goes_on_after_stop: bool,
    /// Time for requests in flight after the end of the group.
    pub(super) grace: Duration,
}

/// Nanoseconds of a duration.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `constant-vus`, `ramp-users`, JMeter's thread group.
pub(super) async fn users(events: &Rc<Loop>, group: &Rc<UserGroup>, users: &Users) {
    let mut tasks = JoinSet::new();
    let max = users.iterations.unwrap_or(u64::MAX);
    for number in (events.index..users.users).step_by(events.loops as usize) {
        let share = f64::from(number) / f64::from(users.users);
        let at = group.start.saturating_add((nanos(users.ramp) as f64 * share) as u64);
        if !wait(events, group, at).await {
            break;
        }
        let user = User::new(events.clone(), group.clone(), number);
        tasks.spawn_local(user.iterate(move |done, _| done < max));
    }
    finish(events, group, tasks, group.deadline).await;
}

/// `shared-iterations`: `started` counts the iterations of all loops.
pub(super) async fn shared(
    events: &Rc<Loop>,
    group: &Rc<UserGroup>,
    vus: u32,
    (iterations, started): (u64, &std::sync::Arc<AtomicU64>),
) {
    let mut tasks = JoinSet::new();
    for number in (events.index..vus).step_by(events.loops as usize) {
        let started = started.clone();
        let user = User::new(events.clone(), group.clone(), number);
        tasks.spawn_local(
            user.iterate(move |_, _| started.fetch_add(1, Ordering::Relaxed) < iterations),
        );
    }
    finish(events, group, tasks, group.deadline).await;
}

/// Users that each have their own start and end.
pub(super) async fn planned(events: &Rc<Loop>, group: &Rc<UserGroup>, planned: &Planned) {
    let mut tasks = JoinSet::new();
    let max = planned.iterations.unwrap_or(u64::MAX);
    let mine = (events.index as usize..planned.spans.len()).step_by(events.loops as usize);
    let mut mine: Vec<usize> = mine.collect();
    mine.sort_by_key(|number| planned.spans[*number].start);
    for number in mine {
        let span = planned.spans[number];
        if !wait(events, group, group.start.saturating_add(nanos(span.start))).await {
            break;
        }
        let mut user = User::new(events.clone(), group.clone(), number as u32);
        user.deadline = group.start.saturating_add(nanos(span.end));
        tasks.spawn_local(user.iterate(move |done, _| done < max));
    }
    finish(events, group, tasks, group.deadline).await;
}

/// `ramping-vus`.
pub(super) async fn ramping(
    events: &Rc<Loop>,
    group: &Rc<UserGroup>,
    start: u32,
    stages: &[Stage],
    iterations: Option<u64>,
) {
    let max = iterations.unwrap_or(u64::MAX);
    let mut tasks = JoinSet::new();
    let allowed = Rc::new(Cell::new(0));
    let running: Rc<RefCell<HashSet<u32>>> = Rc::default();
    let end = group.start.saturating_add(stages.iter().map(|stage| nanos(stage.duration)).sum());
    let mut next = events.now();
    while events.now() < end && wait(events, group, next).await {
        next = events.now().saturating_add(nanos(POLL_INTERVAL));
        let passed = Duration::from_nanos(events.now().saturating_sub(group.start));
        allowed.set(value_at(f64::from(start), stages, passed).round() as u32);
        for number in (events.index..allowed.get()).step_by(events.loops as usize) {
            if !running.borrow_mut().insert(number) {
                continue;
            }
            let (allowed, running) = (allowed.clone(), running.clone());
            let user = User::new(events.clone(), group.clone(), number);
            tasks.spawn_local(async move {
                user.iterate(move |done, _| done < max && number < allowed.get()).await;
                running.borrow_mut().remove(&number);
            });
        }
        while tasks.try_join_next().is_some() {}
    }
    finish(events, group, tasks, end).await;
}

/// The value at a time, interpolated along the stages.
pub(super) fn value_at(start: f64, stages: &[Stage], passed: Duration) -> f64 {
    let mut before = start;
    let mut left = passed;
    for stage in stages {
        if left < stage.duration {
            let share = left.as_secs_f64() / stage.duration.as_secs_f64();
            return before + (stage.target - before) * share;
        }
        left -= stage.duration;
        before = stage.target;
    }
    before
}

/// Waits until a moment of the run; `false` if the group is stopped before.
pub(super) async fn wait(events: &Loop, group: &UserGroup, until: u64) -> bool {
    loop {
        if events.level.get() != Level::Run && !group.goes_on_after_stop {
            return false;
        }
        let now = events.now();
        if now >= group.deadline {
            return false;
        }
        if now >= until {
            return true;
        }
        let stops = events.wake.notified();
        tokio::select! {
            () = tokio::time::sleep_until(events.instant(until.min(group.deadline))) => {}
            () = stops => {}
        }
    }
}

/// Waits for the users to end. Aborts them a grace period after `end` or a stop.
pub(super) async fn finish(events: &Loop, group: &UserGroup, mut tasks: JoinSet<()>, end: u64) {
    while !tasks.is_empty() {
        tokio::select! {
            _ = tasks.join_next() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let stopped = if group.goes_on_after_stop { u64::MAX } else { events.stopped_at.get() };
        let last = end.min(stopped).saturating_add(nanos(group.grace));
        let at_once = events.level.get() == Level::StopNow && !group.goes_on_after_stop;
        if at_once || events.now() > last {
            tasks.abort_all();
        }
    }
}
