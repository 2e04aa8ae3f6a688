//! Open models: iterations start by a schedule.

use super::closed::{UserGroup, finish, nanos};
use super::event_loop::Loop;
use super::user::{Flow, User};
use super::{EngineError, Level};
use crate::program::{ArrivalRate, ArrivalStage, ArrivalTimes};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

/// The schedule of an open model on one loop.
pub(super) struct Arrivals {
    schedule: Schedule,
    quantum: Duration,
    length: Duration,
    max_in_flight: u32,
    backlog: u64,
    /// Each iteration is a new user.
    new_users: bool,
}

/// When iterations are due.
enum Schedule {
    Rate(ArrivalRate),
    Times(Times),
}

/// Times of stages with exact numbers of arrivals. All loops compute the same ones.
struct Times {
    stages: Vec<ArrivalStage>,
    random: fastrand::Rng,
    /// The current stage, its start in seconds, and its arrivals up to now.
    stage: usize,
    start: f64,
    count: u64,
    /// Part of a random stage's arrivals that lie before the last one, from 0 to 1.
    share: f64,
    /// The next arrival in seconds.
    next: Option<f64>,
    due: u64,
}

impl Arrivals {
    pub(super) fn rate(rate: &ArrivalRate) -> Self {
        Self {
            quantum: rate.quantum,
            length: rate.stages.iter().map(|stage| stage.duration).sum(),
            max_in_flight: rate.max_in_flight,
            backlog: rate.backlog,
            new_users: false,
            schedule: Schedule::Rate(rate.clone()),
        }
    }

    pub(super) fn times(events: &Loop, times: &ArrivalTimes) -> Self {
        Self {
            quantum: times.quantum,
            length: times.length(),
            max_in_flight: times.max_in_flight,
            backlog: 0,
            new_users: true,
            schedule: Schedule::Times(Times::new(times.stages.clone(), events.common.seed)),
        }
    }
}

impl Schedule {
    /// Number of iterations due up to this time.
    fn due(&mut self, passed: Duration) -> u64 {
        match self {
            Self::Rate(rate) => rate.due(passed),
            Self::Times(times) => times.due(passed),
        }
    }
}

impl Times {
    fn new(stages: Vec<ArrivalStage>, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let mut times =
            Self { stages, random, stage: 0, start: 0.0, count: 0, share: 0.0, next: None, due: 0 };
        times.next = times.following();
        times
    }

    fn due(&mut self, passed: Duration) -> u64 {
        while self.next.is_some_and(|next| next <= passed.as_secs_f64()) {
            self.due += 1;
            self.next = self.following();
        }
        self.due
    }

    /// The following arrival.
    fn following(&mut self) -> Option<f64> {
        loop {
            let stage = *self.stages.get(self.stage)?;
            let all = stage.count();
            if self.count >= all {
                self.start += stage.duration.as_secs_f64();
                (self.stage, self.count, self.share) = (self.stage + 1, 0, 0.0);
                continue;
            }
            let area = if stage.random {
                // The smallest of the remaining uniform numbers above the last one.
                let left = (all - self.count) as f64;
                let part = 1.0 - (1.0 - self.random.f64()).powf(1.0 / left);
                self.share += (1.0 - self.share) * part;
                let area = (stage.from + stage.to) / 2.0 * stage.duration.as_secs_f64();
                self.share * area
            } else {
                self.count as f64
            };
            self.count += 1;
            return Some(self.start + stage.time_of(area));
        }
    }
}

impl ArrivalRate {
    /// Number of iterations due up to this time: the area under the rate.
    fn due(&self, passed: Duration) -> u64 {
        let mut rate = self.start;
        let mut left = passed;
        let mut due = 0.0;
        for stage in &self.stages {
            let part = left.min(stage.duration);
            let share = part.as_secs_f64() / stage.duration.as_secs_f64().max(1e-9);
            let reached = rate + (stage.target - rate) * share;
            due += (rate + reached) / 2.0 * part.as_secs_f64();
            left -= part;
            if left.is_zero() && !stage.duration.is_zero() {
                break;
            }
            rate = stage.target;
        }
        // Rounding errors do not delay an iteration.
        (due + 1e-6).floor().max(0.0) as u64
    }
}

/// Assigns iterations to the users of a group on one loop.
#[derive(Default)]
struct Dispatcher {
    /// Idle users, the last one first: few connections are busy instead of many.
    idle: RefCell<Vec<Rc<IdleUser>>>,
    /// Due times of iterations that wait for a user.
    backlog: RefCell<VecDeque<u64>>,
    closed: Cell<bool>,
}

/// A user without an iteration.
#[derive(Default)]
struct IdleUser {
    iteration: Cell<Option<u64>>,
    waker: RefCell<Option<Waker>>,
}

impl Dispatcher {
    /// Waits for an iteration. Returns its due time, and the time since which the user was idle.
    async fn next(&self, idle_user: &Rc<IdleUser>, now: u64) -> Option<(u64, u64)> {
        if let Some(late) = self.backlog.borrow_mut().pop_front() {
            return Some((late, now));
        }
        if self.closed.get() {
            return None;
        }
        self.idle.borrow_mut().push(idle_user.clone());
        poll_fn(|cx| match idle_user.iteration.take() {
            Some(due) => Poll::Ready(Some((due, now))),
            None if self.closed.get() => Poll::Ready(None),
            None => {
                idle_user.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    /// Assigns an iteration to an idle user; `false` without an idle user.
    fn assign(&self, due: u64) -> bool {
        let Some(idle_user) = self.idle.borrow_mut().pop() else { return false };
        idle_user.iteration.set(Some(due));
        if let Some(waker) = idle_user.waker.take() {
            waker.wake();
        }
        true
    }

    fn close(&self) {
        self.closed.set(true);
        for idle_user in self.idle.take() {
            if let Some(waker) = idle_user.waker.take() {
                waker.wake();
            }
        }
    }
}

/// `constant-arrival-rate`, `ramping-arrival-rate`.
pub(super) async fn run(
    events: &Rc<Loop>,
    group: &Rc<UserGroup>,
    arrivals: Arrivals,
) -> Result<(), EngineError> {
    let quantum = arrivals.quantum;
    let mut pacer = Pacer::new(events, group, arrivals);
    let passed = Duration::from_nanos(events.now().saturating_sub(group.start));
    let mut timer = Timer::start(quantum, passed).map_err(EngineError::Timer)?;
    while !pacer.ended {
        timer.tick().await.map_err(EngineError::Timer)?;
        if events.level.get() != Level::Run && !group.goes_on_after_stop {
            break;
        }
        pacer.catch_up();
    }
    let Pacer { dispatcher, tasks, .. } = pacer;
    dispatcher.close();
    finish(events, group, tasks, events.now()).await;
    let left = dispatcher.backlog.take().len() as u64;
    events.recorder.borrow_mut().add_offered(0, left);
    Ok(())
}

/// The part of a loop of a number that all loops share.
fn share(all: u64, loops: u32, index: u32) -> usize {
    let (loops, index) = (u64::from(loops), u64::from(index));
    let share = all / loops + u64::from(index < all % loops);
    usize::try_from(share).unwrap_or(usize::MAX)
}

/// Starts the due iterations of a schedule.
struct Pacer {
    events: Rc<Loop>,
    group: Rc<UserGroup>,
    arrivals: Arrivals,
    dispatcher: Rc<Dispatcher>,
    tasks: JoinSet<()>,
    /// Largest number of users and of waiting iterations on this loop.
    limits: (usize, usize),
    /// Processed quanta.
    tick: u64,
    /// Processed iterations, of all loops.
    started: u64,
    /// Created users.
    users: u32,
    ended: bool,
}

impl Pacer {
    fn new(events: &Rc<Loop>, group: &Rc<UserGroup>, arrivals: Arrivals) -> Self {
        let users = share(arrivals.max_in_flight.into(), events.loops, events.index);
        let backlog = share(arrivals.backlog, events.loops, events.index);
        Self {
            events: events.clone(),
            group: group.clone(),
            arrivals,
            dispatcher: Rc::default(),
            tasks: JoinSet::new(),
            limits: (users, backlog),
            tick: 0,
            started: 0,
            users: 0,
            ended: false,
        }
    }

    /// Starts all iterations that are due by now. A missed quantum is processed with its own due
    /// time, so that the lag is visible.
    fn catch_up(&mut self) {
        let length = self.arrivals.length;
        let quantum = nanos(self.arrivals.quantum).max(1);
        let passed = self.events.now().saturating_sub(self.group.start);
        let passed = Duration::from_nanos(passed).min(length);
        self.ended = passed >= length;
        let last =
            if self.ended { nanos(length).div_ceil(quantum) } else { nanos(passed) / quantum };
        while self.tick < last {
            self.tick += 1;
            let at = Duration::from_nanos(self.tick.saturating_mul(quantum)).min(length);
            self.start_due(at);
        }
    }

    /// Starts the iterations that are due at a quantum.
    fn start_due(&mut self, at: Duration) {
        // A loop without a user starts nothing.
        let loops = u64::from(self.events.loops.min(self.arrivals.max_in_flight.max(1)));
        let mine = u64::from(self.events.index);
        let due = self.group.start.saturating_add(nanos(at));
        let until = self.arrivals.schedule.due(at).max(self.started);
        let (mut offered, mut dropped) = (0, 0);
        for _ in (self.started..until).filter(|iteration| iteration % loops == mine) {
            offered += 1;
            dropped += u64::from(!self.dispatch(due));
        }
        self.started = until;
        if offered > 0 {
            self.events.recorder.borrow_mut().add_offered(offered, dropped);
        }
    }

    /// Assigns an iteration to a user, or adds it to the backlog; `false` if the backlog is full.
    fn dispatch(&mut self, due: u64) -> bool {
        if !self.arrivals.new_users && self.dispatcher.assign(due) {
            return true;
        }
        while self.tasks.try_join_next().is_some() {}
        let (users, backlog) = self.limits;
        if self.tasks.len() < users {
            let number = self.users * self.events.loops + self.events.index;
            self.users += 1;
            let user = User::new(self.events.clone(), self.group.clone(), number);
            if self.arrivals.new_users {
                self.tasks.spawn_local(run_new_user(user, due));
            } else {
                self.tasks.spawn_local(run_user(user, self.dispatcher.clone(), due));
            }
            return true;
        }
        let mut waiting = self.dispatcher.backlog.borrow_mut();
        if waiting.len() < backlog {
            waiting.push_back(due);
            return true;
        }
        false
    }
}

/// Runs a user with a single iteration.
async fn run_new_user(mut user: User, due: u64) {
    user.intended = Some(due);
    user.idle_since = 0;
    user.iteration().await;
}

/// Runs a user, which executes its assigned iterations.
async fn run_user(mut user: User, dispatcher: Rc<Dispatcher>, first: u64) {
    let idle_user = Rc::new(IdleUser::default());
    // The user is new: only the generator can have delayed the first iteration.
    let mut next = (first, 0);
    loop {
        let (due, idle_since) = next;
        user.now = user.events.now();
        user.paused = true;
        user.intended = Some(due);
        user.idle_since = idle_since;
        if user.iteration().await == Flow::EndUser {
            return;
        }
        match dispatcher.next(&idle_user, user.now).await {
            Some(iteration) => next = iteration,
            None => return,
        }
    }
}

/// Ticks with a finer resolution than tokio's timers, which have milliseconds.
///
/// The timer's descriptor is read as a pipe: tokio has no safer way to wait for it.
struct Timer(Receiver);

impl Timer {
    /// Ticks at multiples of `quantum` after a start that was `passed` ago: never before one of them, because
    /// a tick that is early is processed by the next one.
    fn start(quantum: Duration, passed: Duration) -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let quantum = quantum.max(Duration::from_micros(10));
        let late = passed.as_nanos() % quantum.as_nanos();
        let first = quantum.saturating_sub(Duration::from_nanos_u128(late));
        let setting = Itimerspec { it_interval: timespec(quantum), it_value: timespec(first) };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    async fn tick(&mut self) -> std::io::Result<()> {
        // A read returns eight bytes. With a larger buffer tokio knows that no bytes are left.
        let mut count = [0; 16];
        self.0.read(&mut count).await.map(drop)
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Stage;

    fn schedule(start: f64, stages: &[(u64, f64)]) -> ArrivalRate {
        let stage = |&(seconds, target)| Stage { duration: Duration::from_secs(seconds), target };
        let stages = stages.iter().map(stage).collect();
        let quantum = Duration::from_millis(1);
        ArrivalRate { start, stages, quantum, max_in_flight: 1, backlog: 0 }
    }

    #[test]
    fn loops_share_users_exactly() {
        for (all, loops) in [(1, 8), (10, 8), (16, 8), (7, 1), (1_000, 3)] {
            let shares: Vec<usize> = (0..loops).map(|index| share(all, loops, index)).collect();
            assert_eq!(shares.iter().sum::<usize>() as u64, all, "{shares:?}");
            // Loops with a user come first: iterations are divided among them.
            let users = shares.iter().take_while(|users| **users > 0).count() as u64;
            assert_eq!(users, all.min(loops.into()), "{shares:?}");
        }
    }

    #[test]
    fn a_constant_rate_is_due_evenly() {
        let schedule = schedule(20_000.0, &[(10, 20_000.0)]);
        let due = |millis| schedule.due(Duration::from_millis(millis));
        assert_eq!(
            (due(0), due(1), due(2), due(10_000), due(20_000)),
            (0, 20, 40, 200_000, 200_000)
        );
        let all_multiples = (0..10_000).all(|tick| due(tick) == tick * 20);
        assert!(all_multiples, "rounding neither adds nor loses one");
    }

    #[test]
    fn a_ramp_is_the_area_below_it() {
        let schedule = schedule(0.0, &[(10, 100.0), (10, 100.0), (0, 10.0), (10, 0.0)]);
        let due = |seconds| schedule.due(Duration::from_secs(seconds));
        assert_eq!((due(5), due(10), due(20), due(30)), (125, 500, 1500, 1550));
    }

    #[test]
    fn stages_of_arrivals_have_exact_numbers() {
        let stage = |seconds, from, to, random| ArrivalStage {
            duration: Duration::from_secs(seconds),
            from,
            to,
            random,
        };
        let stages = vec![
            stage(2, 2.0, 2.0, false),
            stage(2, 0.0, 0.0, false),
            stage(10, 0.0, 10.0, true),
            stage(10, 10.0, 0.0, true),
        ];
        let mut times = Times::new(stages, 7);
        let due: Vec<u64> = [0, 499, 500, 1_999, 3_999, 9_000, 14_000, 24_000]
            .map(|millis| times.due(Duration::from_millis(millis)))
            .into();
        assert_eq!(due[..5], [1, 1, 2, 4, 4]);
        // A quarter of a ramp's arrivals is in its first half.
        assert!((10..25).contains(&due[5]), "{}", due[5]);
        assert_eq!(due[6..], [54, 104]);
    }
}
