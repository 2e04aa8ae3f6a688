//! A connected agent, as the controller sees it: a task that sends, receives and compares clocks.

use super::PING_INTERVAL;
use super::channel::Channel;
use super::clock::{Offset, RoundTrip};
use super::message::{ToAgent, ToController};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// Round trips before the first round.
const FIRST_PINGS: usize = 8;
/// Wait for a full queue of events.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// What an agent reports.
pub(super) enum PeerEvent {
    Message(ToController),
    /// The agent cannot be reached any more, for this reason.
    Lost(String),
}

/// Events of all agents, with their indexes.
pub(super) type Events = SyncSender<(usize, PeerEvent)>;

/// Exchanges messages until the controller or the agent ends.
pub(super) async fn run(
    index: usize,
    channel: Channel<ToController>,
    mut commands: mpsc::Receiver<ToAgent>,
    events: Events,
    (base, offset): (Instant, Arc<Mutex<Offset>>),
) {
    let Channel { mut writer, mut received } = channel;
    let now = || u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first = FIRST_PINGS;
    let reason = loop {
        let sent = tokio::select! {
            command = commands.recv() => match command {
                Some(plan @ ToAgent::Plan(_)) => writer.send_plan(&plan).await,
                Some(command) => writer.send(&command).await,
                None => return,
            },
            _ = pings.tick() => writer.send(&ToAgent::Ping { sent: now() }).await,
            message = received.recv() => match message {
                Some(Ok(ToController::Pong { sent, at })) => {
                    let trip = RoundTrip::new(sent, at, now());
                    offset.lock().unwrap_or_else(PoisonError::into_inner).add(trip);
                    first = first.saturating_sub(1);
                    match first {
                        0 => Ok(()),
                        _ => writer.send(&ToAgent::Ping { sent: now() }).await,
                    }
                }
                Some(Ok(message)) => {
                    hand(&events, (index, PeerEvent::Message(message))).await;
                    Ok(())
                }
                Some(Err(reason)) => Err(reason),
                None => Err("the connection was closed".to_owned()),
            },
        };
        if let Err(reason) = sent {
            break reason;
        }
    };
    hand(&events, (index, PeerEvent::Lost(reason))).await;
}

/// Passes an event to the thread of the run; waits while its queue is full.
async fn hand(events: &Events, mut event: (usize, PeerEvent)) {
    while let Err(TrySendError::Full(same)) = events.try_send(event) {
        event = same;
        tokio::time::sleep(FULL_WAIT).await;
    }
}
