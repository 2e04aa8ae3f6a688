//! A sink of events that takes them, fails, hangs, and comes back, as a test says.

use crate::harness::{Peer, Upstream, eventually};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// What the sink does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Takes it.
    Take,
    /// Answers with 503.
    Fail,
    /// Answers with 400 to events with this in them, and takes the others.
    Pick(&'static str),
    /// Reads it and closes the connection.
    BreakOff,
    /// Reads it and never answers.
    Hang,
}

#[derive(Debug)]
struct State {
    mood: Mood,
    /// All that came, whatever was answered.
    came: Vec<Value>,
    taken: Vec<Value>,
}

/// The sink.
pub(crate) struct Sink {
    upstream: Upstream,
    state: Arc<Mutex<State>>,
}

impl Sink {
    pub(crate) fn start(mood: Mood) -> Self {
        let state = State { mood, came: Vec::new(), taken: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let upstream = Upstream::start(move |_, peer| serve(&shared, peer));
        Self { upstream, state }
    }

    /// As one of `upstreams`.
    pub(crate) fn target(&self) -> String {
        format!("{{targets: [\"http://{}\"], timeout: 1s}}", self.upstream.addr)
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// Events that it has said to have.
    pub(crate) fn taken(&self) -> Vec<Value> {
        self.state.lock().unwrap().taken.clone()
    }

    /// How many events came, whatever was answered.
    pub(crate) fn came(&self) -> usize {
        self.state.lock().unwrap().came.len()
    }

    /// Heads of the requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.upstream.heads()
    }

    /// Waits for so many different events that it has taken, and gives them all, first ones first.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Value> {
        eventually("events come", || different(&self.taken()).len() >= count);
        different(&self.taken())
    }
}

/// Each event once.
fn different(events: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for event in events {
        if !found.iter().any(|other| other["id"] == event["id"]) {
            found.push(event.clone());
        }
    }
    found
}

fn serve(state: &Mutex<State>, peer: &mut Peer) {
    while let Some(body) = peer.request() {
        let event: Value = serde_json::from_slice(&body).expect("an event is JSON");
        let mood = {
            let mut state = state.lock().unwrap();
            state.came.push(event.clone());
            state.mood
        };
        let response = match mood {
            Mood::Take => "HTTP/1.1 204 No Content\r\n\r\n",
            Mood::Pick(text) if event.to_string().contains(text) => {
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
            }
            Mood::Pick(_) => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            Mood::Fail => "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            Mood::BreakOff => return,
            Mood::Hang => {
                while peer.some().is_some() {}
                return;
            }
        };
        if response.contains(" 20") {
            state.lock().unwrap().taken.push(event);
        }
        if !peer.send(response) {
            return;
        }
    }
}
