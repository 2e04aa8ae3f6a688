//! Timers that depend on other users, also on those of other loops.

use super::closed::nanos;
use super::event_loop::Loop;
use super::user::{Flow, User};
use crate::program::{Executor, Program, SharedTimer, TimerId, Users};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::Notify;

/// Nanoseconds of a second and of a millisecond.
const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// Interval in which a wait for other users checks the end of the run.
const POLL: Duration = Duration::from_millis(20);

/// The state of all timers of a program.
#[derive(Debug, Default)]
pub(super) struct SharedTimers(Vec<State>);

#[derive(Debug)]
enum State {
    Rendezvous {
        waiting: Mutex<Waiting>,
        open: Notify,
    },
    /// By group: timers of the same group share their times, as in JMeter.
    Precise(Vec<Mutex<Times>>),
    Shaped(Mutex<Shape>),
}

#[derive(Debug, Default)]
struct Waiting {
    users: u64,
    /// Number of meetings.
    round: u64,
}

/// Random times of a period.
#[derive(Debug, Default)]
struct Times {
    /// Remaining times of this period.
    left: u64,
    /// End of the period and the last time, in seconds.
    end: f64,
    last: f64,
    /// Remaining samples at the last time.
    same: u64,
    rate: f64,
}

/// Progress of a schedule of rates.
#[derive(Debug, Default)]
struct Shape {
    /// First second, and the current one, since 1970.
    first: Option<u64>,
    second: u64,
    /// Samples of this second.
    sent: u64,
}

impl SharedTimers {
    pub(super) fn new(program: &Program) -> Self {
        let state = |timer: &SharedTimer| match timer {
            SharedTimer::Rendezvous { .. } => {
                State::Rendezvous { waiting: Mutex::default(), open: Notify::new() }
            }
            SharedTimer::Precise { .. } => {
                State::Precise(program.groups.iter().map(|_| Mutex::default()).collect())
            }
            SharedTimer::Shaped(_) => State::Shaped(Mutex::default()),
        };
        Self(program.timers.iter().map(state).collect())
    }

    fn get(&self, id: TimerId) -> Option<&State> {
        self.0.get(id.0 as usize)
    }

    /// The first timer of the same kind, whose times all timers of a group share.
    fn precise(&self) -> Option<&Vec<Mutex<Times>>> {
        self.0.iter().find_map(|state| match state {
            State::Precise(groups) => Some(groups),
            _ => None,
        })
    }
}

impl User {
    /// Waits as a timer demands.
    pub(super) async fn shared_timer(&mut self, events: &Loop, id: TimerId) -> Flow {
        let common = events.common.clone();
        let timer = common.plan.program.timers.get(id.0 as usize);
        match (timer, common.timers.get(id)) {
            (
                Some(SharedTimer::Rendezvous { users, timeout }),
                Some(State::Rendezvous { waiting, open }),
            ) => {
                let users = match users.integer(&mut self.scope()) {
                    0 => self.users_of_group(),
                    users => u64::try_from(users).unwrap_or(0),
                };
                let timeout = u64::try_from(timeout.integer(&mut self.scope())).unwrap_or(0);
                self.meet(events, (waiting, open), users, timeout.saturating_mul(MILLI)).await;
                Flow::Next
            }
            (Some(SharedTimer::Precise { throughput, period, duration, batch }), Some(_)) => {
                let mut scope = self.scope();
                let rate = throughput.number(&mut scope) / period.number(&mut scope).max(1.0);
                let (duration, batch) =
                    (duration.number(&mut scope).max(1.0), batch.number(&mut scope).max(1.0));
                let Some(groups) = common.timers.precise() else { return Flow::Next };
                let at = {
                    let times = groups[self.group.index].lock();
                    let mut times = times.unwrap_or_else(PoisonError::into_inner);
                    times.next(rate, duration, batch, self.values.random())
                };
                let due = (at * SECOND as f64) as u64;
                if due > self.deadline {
                    return Flow::EndUser;
                }
                self.pause(due.saturating_sub(self.now) as f64).await;
                Flow::Next
            }
            (Some(SharedTimer::Shaped(rows)), Some(State::Shaped(shape))) => {
                let start = common.clock.wall.duration_since(UNIX_EPOCH).map_or(0, nanos);
                let now = start.saturating_add(self.now);
                let next = shape.lock().unwrap_or_else(PoisonError::into_inner).next(now, rows);
                match next {
                    Ok(due) => {
                        self.pause(due.saturating_sub(now) as f64).await;
                        Flow::Next
                    }
                    Err(end) => {
                        self.pause(end.saturating_sub(now) as f64).await;
                        Flow::EndUser
                    }
                }
            }
            _ => Flow::Next,
        }
    }

    fn users_of_group(&self) -> u64 {
        let common = &self.events.common;
        match common.plan.program.groups[self.group.index].executor {
            Executor::Users(Users { users, .. }) => users.into(),
            _ => common.active[self.group.index].load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    /// Waits until `users` users wait, or one has waited for the timeout.
    async fn meet(
        &mut self,
        events: &Loop,
        (waiting, open): (&Mutex<Waiting>, &Notify),
        users: u64,
        timeout: u64,
    ) {
        let lock = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let open_now = |waiting: &mut Waiting| {
            waiting.users = 0;
            waiting.round += 1;
            open.notify_waiters();
        };
        let round = {
            let mut waiting = lock();
            waiting.users += 1;
            if waiting.users >= users {
                return open_now(&mut waiting);
            }
            waiting.round
        };
        let before = self.now;
        let end = if timeout == 0 { u64::MAX } else { before.saturating_add(timeout) };
        loop {
            let opened = open.notified();
            if lock().round != round {
                break;
            }
            let until = events.instant(end.min(self.deadline));
            tokio::select! {
                () = opened => {}
                () = tokio::time::sleep_until(until) => {}
                () = tokio::time::sleep(POLL) => {}
            }
            self.now = events.now();
            let mut waiting = lock();
            if waiting.round == round && self.now >= end {
                open_now(&mut waiting);
            } else if waiting.round == round && self.must_end() {
                waiting.users = waiting.users.saturating_sub(1);
                break;
            }
        }
        self.waited(before);
    }
}

impl Times {
    /// The next time in seconds: in each period of `duration` seconds, times are uniformly
    /// distributed, and their number is exact.
    fn next(&mut self, rate: f64, duration: f64, batch: f64, random: &mut fastrand::Rng) -> f64 {
        if self.same > 0 {
            self.same -= 1;
            return self.last;
        }
        let changed = (rate - self.rate).abs() >= 1e-5;
        if self.left == 0 || changed {
            self.rate = rate;
            // The first number of a period is one more than its integer part, as in JMeter.
            self.left = ((rate / batch * duration).ceil() as u64).max(1);
            self.last = self.end;
            self.end += duration;
        }
        // The smallest of `left` uniform numbers in the rest of the period.
        let share = 1.0 - (1.0 - random.f64()).powf(1.0 / self.left as f64);
        self.last += (self.end - self.last) * share;
        self.left -= 1;
        self.same = batch as u64 - 1;
        self.last
    }
}

impl Shape {
    /// The due time of the next sample, or the end of the schedule. Times are nanoseconds since
    /// 1970: as in the plugin, a rate is valid for a second of the clock.
    fn next(&mut self, now: u64, rows: &[(f64, f64, u32)]) -> Result<u64, u64> {
        let current = now / SECOND;
        if current > self.second || self.first.is_none() {
            (self.second, self.sent) = (current, 0);
        }
        let first = *self.first.get_or_insert(current);
        loop {
            let Some(rate) = rate(rows, self.second - first) else {
                return Err(self.second * SECOND);
            };
            // The last millisecond of a second is its last possible time.
            let offset = (self.sent as f64 * 1e9 / rate.max(1e-9)) as u64;
            if rate > 0.0 && offset <= 999 * MILLI {
                self.sent += 1;
                return Ok(self.second * SECOND + offset);
            }
            (self.second, self.sent) = (self.second + 1, 0);
        }
    }
}

/// The rate in a second of a schedule. The second at the end of a row belongs to this row.
fn rate(rows: &[(f64, f64, u32)], second: u64) -> Option<f64> {
    let mut left = second;
    for &(from, to, length) in rows {
        let length = u64::from(length);
        if left <= length {
            let share = if length == 0 { 0.0 } else { left as f64 / length as f64 };
            return Some(from + share * (to - from));
        }
        left -= length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precise_times_are_exact_in_each_period_and_ascend() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut times = Times::default();
        let all: Vec<f64> = (0..20).map(|_| times.next(5.0, 2.0, 1.0, &mut random)).collect();
        assert!(all.is_sorted());
        assert_eq!(all.iter().filter(|time| **time < 2.0).count(), 10);
        let mut times = Times::default();
        let pairs: Vec<f64> = (0..20).map(|_| times.next(5.0, 2.0, 2.0, &mut random)).collect();
        assert!(pairs.chunks(2).all(|pair| pair[0] == pair[1]), "batches");
    }

    #[test]
    fn a_shaped_schedule_has_its_rate_in_each_second_of_the_clock() {
        let mut shape = Shape::default();
        let rows = [(4.0, 4.0, 1), (2.0, 2.0, 1)];
        let start = 1_000 * SECOND + 600 * MILLI;
        let due: Vec<Result<u64, u64>> = (0..11).map(|_| shape.next(start, &rows)).collect();
        let millis = |result: &Result<u64, u64>| result.map(|at| at / MILLI - 1_000_000);
        let due: Vec<_> = due.iter().map(millis).collect();
        let ok = |at| Ok(at);
        let expected: Vec<Result<u64, u64>> =
            [0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000, 2500].map(ok).into_iter().collect();
        assert_eq!(due[..10], expected);
        assert!(due[10].is_err());
    }
}
