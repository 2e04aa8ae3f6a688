//! Open models: iterations begin when a schedule says so.

use super::closed::{Crew, finish, nanos};
use super::event_loop::Loop;
use super::user::{Flow, User};
use super::{EngineError, Level};
use crate::program::Stage;
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

/// An open model of one group.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) schedule: Schedule,
    pub(super) quantum: Duration,
    /// Of all loops.
    pub(super) max_in_flight: u32,
    pub(super) backlog: u64,
}

/// When iterations are due.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) start: f64,
    pub(super) stages: Vec<Stage>,
}

impl Schedule {
    /// How many iterations are due up to this time: the area below the rate.
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
            if left.is_zero() {
                break;
            }
            rate = stage.target;
        }
        // What is whole but for rounding is whole.
        (due + 1e-6).floor().max(0.0) as u64
    }

    fn length(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }
}

/// Work for the users of a group on one loop.
#[derive(Default)]
struct Desk {
    /// Users that wait, the last one first: few connections are busy rather than many.
    idle: RefCell<Vec<Rc<Seat>>>,
    /// Iterations that wait for a user.
    backlog: RefCell<VecDeque<u64>>,
    closed: Cell<bool>,
}

/// Where a user waits for work.
#[derive(Default)]
struct Seat {
    work: Cell<Option<u64>>,
    waker: RefCell<Option<Waker>>,
}

impl Desk {
    /// Waits for an iteration: when it was due, and since when the user waited.
    async fn next(&self, seat: &Rc<Seat>, now: u64) -> Option<(u64, u64)> {
        if let Some(late) = self.backlog.borrow_mut().pop_front() {
            return Some((late, now));
        }
        if self.closed.get() {
            return None;
        }
        self.idle.borrow_mut().push(seat.clone());
        poll_fn(|cx| match seat.work.take() {
            Some(due) => Poll::Ready(Some((due, now))),
            None if self.closed.get() => Poll::Ready(None),
            None => {
                seat.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    /// Gives an iteration to a waiting user.
    fn give(&self, due: u64) -> bool {
        let Some(seat) = self.idle.borrow_mut().pop() else { return false };
        seat.work.set(Some(due));
        if let Some(waker) = seat.waker.take() {
            waker.wake();
        }
        true
    }

    fn close(&self) {
        self.closed.set(true);
        for seat in self.idle.take() {
            if let Some(waker) = seat.waker.take() {
                waker.wake();
            }
        }
    }
}

/// `constant-arrival-rate`, `ramping-arrival-rate`.
pub(super) async fn run(
    events: &Rc<Loop>,
    crew: &Rc<Crew>,
    model: &Model,
) -> Result<(), EngineError> {
    let mut timer = Timer::start(model.quantum).map_err(EngineError::Timer)?;
    let mut pace = Pace::new(events, crew, model);
    while !pace.ended {
        timer.tick().await.map_err(EngineError::Timer)?;
        if events.level.get() != Level::Run && !crew.goes_on_after_stop {
            break;
        }
        pace.catch_up();
    }
    let Pace { desk, tasks, .. } = pace;
    desk.close();
    finish(events, crew, tasks, events.now()).await;
    let left = desk.backlog.take().len() as u64;
    events.recorder.borrow_mut().offer(0, left);
    Ok(())
}

/// A schedule under way.
struct Pace<'m> {
    events: Rc<Loop>,
    crew: Rc<Crew>,
    model: &'m Model,
    desk: Rc<Desk>,
    tasks: JoinSet<()>,
    /// Users and waiting iterations that this loop may have.
    most: (usize, usize),
    /// Quanta that are dealt with.
    tick: u64,
    /// Iterations that are dealt with, of all loops.
    begun: u64,
    /// Users made.
    users: u32,
    ended: bool,
}

impl<'m> Pace<'m> {
    fn new(events: &Rc<Loop>, crew: &Rc<Crew>, model: &'m Model) -> Self {
        let users = model.max_in_flight.div_ceil(events.loops) as usize;
        let backlog = model.backlog.div_ceil(events.loops.into());
        Self {
            events: events.clone(),
            crew: crew.clone(),
            model,
            desk: Rc::default(),
            tasks: JoinSet::new(),
            most: (users, usize::try_from(backlog).unwrap_or(usize::MAX)),
            tick: 0,
            begun: 0,
            users: 0,
            ended: false,
        }
    }

    /// Begins what is due by now. Each quantum that was missed is made up for with the moment at
    /// which it was due, so that being late shows.
    fn catch_up(&mut self) {
        let length = self.model.schedule.length();
        let quantum = nanos(self.model.quantum).max(1);
        let passed = self.events.now().saturating_sub(self.crew.began);
        let passed = Duration::from_nanos(passed).min(length);
        self.ended = passed >= length;
        let last =
            if self.ended { nanos(length).div_ceil(quantum) } else { nanos(passed) / quantum };
        while self.tick < last {
            self.tick += 1;
            let at = Duration::from_nanos(self.tick.saturating_mul(quantum)).min(length);
            self.begin(at);
        }
    }

    /// Begins what is due at a quantum.
    fn begin(&mut self, at: Duration) {
        let (loops, mine) = (u64::from(self.events.loops), u64::from(self.events.index));
        let due = self.crew.began.saturating_add(nanos(at));
        let until = self.model.schedule.due(at).max(self.begun);
        let (mut offered, mut dropped) = (0, 0);
        for _ in (self.begun..until).filter(|iteration| iteration % loops == mine) {
            offered += 1;
            dropped += u64::from(!self.begin_one(due));
        }
        self.begun = until;
        if offered > 0 {
            self.events.recorder.borrow_mut().offer(offered, dropped);
        }
    }

    /// Has a user do an iteration, or lets it wait for one; `false` if there is no room to wait.
    fn begin_one(&mut self, due: u64) -> bool {
        if self.desk.give(due) {
            return true;
        }
        while self.tasks.try_join_next().is_some() {}
        let (users, backlog) = self.most;
        if self.tasks.len() < users {
            let number = self.users * self.events.loops + self.events.index;
            self.users += 1;
            let user = User::new(self.events.clone(), self.crew.clone(), number);
            self.tasks.spawn_local(serve(user, self.desk.clone(), due));
            return true;
        }
        let mut waiting = self.desk.backlog.borrow_mut();
        if waiting.len() < backlog {
            waiting.push_back(due);
            return true;
        }
        false
    }
}

/// A user that does the iterations it is given.
async fn serve(mut user: User, desk: Rc<Desk>, first: u64) {
    let seat = Rc::new(Seat::default());
    // It could not have begun earlier: nothing but the generator was late.
    let mut work = (first, 0);
    loop {
        let (due, free_since) = work;
        user.now = user.events.now();
        user.rested = true;
        user.intended = Some(due);
        user.free_since = free_since;
        if user.iteration().await == Flow::EndUser {
            return;
        }
        match desk.next(&seat, user.now).await {
            Some(next) => work = next,
            None => return,
        }
    }
}

/// Ticks; finer than tokio's own timers, which know milliseconds.
///
/// A timer's descriptor is read like a pipe's; there is no safer way to have tokio wait for one.
struct Timer(Receiver);

impl Timer {
    fn start(quantum: Duration) -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let quantum = quantum.max(Duration::from_micros(10));
        let every = Timespec {
            tv_sec: i64::try_from(quantum.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: quantum.subsec_nanos().into(),
        };
        let setting = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    async fn tick(&mut self) -> std::io::Result<()> {
        // Eight bytes come; in a buffer with more room that tells that no more are left.
        let mut count = [0; 16];
        self.0.read(&mut count).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(start: f64, stages: &[(u64, f64)]) -> Schedule {
        let stage = |&(seconds, target)| Stage { duration: Duration::from_secs(seconds), target };
        Schedule { start, stages: stages.iter().map(stage).collect() }
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
}
