//! Regular samples during a load.

use super::{MIN_INTERVAL, Observer};
use crate::results::ServerRow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A sampling thread, so that a slow metrics page does not delay the load.
#[derive(Debug)]
pub struct Watch {
    end: Sender<()>,
    rows: Receiver<Vec<ServerRow>>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Takes a sample now and then at intervals of `every`. Times of rows count from `start`, which
    /// is about now.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(mut observer: Observer, every: Duration, start: Instant) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let (sender, rows) = channel();
        let sample = move || {
            // CPU figures are differences: the first sample has none.
            observer.sample(0.0);
            let mut next = start + every;
            let mut before = None;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                let last = ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                let now = Instant::now();
                if !last || before.is_none_or(|before| now.duration_since(before) >= MIN_INTERVAL) {
                    let rows = observer.sample(now.duration_since(start).as_secs_f64());
                    if sender.send(rows).is_err() {
                        return;
                    }
                }
                if last {
                    return;
                }
                before = Some(now);
                next = (next + every).max(now);
            }
        };
        let thread = std::thread::Builder::new().name("lab-watch".to_owned()).spawn(sample)?;
        Ok(Self { end, rows, thread })
    }

    /// Rows since the last call.
    pub fn rows(&self) -> Vec<ServerRow> {
        self.rows.try_iter().flatten().collect()
    }

    /// Takes a last sample and ends. Returns the rows since the last call.
    pub fn end(self) -> Vec<ServerRow> {
        // The thread may have ended already.
        let _ = self.end.send(());
        let _ = self.thread.join();
        self.rows.try_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_on_the_axis_of_the_load() {
        let start = Instant::now();
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut observer = Observer::new();
        observer.add_processes("server", &[pid]);
        let watch = Watch::start(observer, Duration::from_millis(100), start).unwrap();
        while start.elapsed() < Duration::from_millis(450) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut rows = watch.rows();
        assert!(!rows.is_empty(), "some are there before the end");
        rows.extend(watch.end());
        let times: Vec<f64> =
            rows.iter().filter(|row| row.subject == "server").map(|row| row.time).collect();
        assert!(times.is_sorted() && times[0] >= 0.1, "{times:?}");
        assert!(rows.iter().all(|row| row.subject != "server" || row.cpu.is_some()), "{rows:?}");
    }
}
