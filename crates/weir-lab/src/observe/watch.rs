//! Looking at everything again and again while a load runs.

use super::Observer;
use crate::results::ServerRow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A last look that comes sooner than this after the one before says little, since clocks of
/// processes tick every 10 ms. It is better than nothing only.
const LEAST: Duration = Duration::from_millis(200);

/// A thread that looks, so that a metrics page that answers late holds nothing up.
#[derive(Debug)]
pub struct Watch {
    end: Sender<()>,
    rows: Receiver<Vec<ServerRow>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks now, and then `every` so often; times of rows are since `start`, which is about now.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(mut observer: Observer, every: Duration, start: Instant) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let (sender, rows) = channel();
        let look = move || {
            // CPU figures are differences: the first look gives none.
            observer.sample(0.0);
            let mut next = start + every;
            let mut before = None;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                let last = ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                let now = Instant::now();
                if !last || before.is_none_or(|before| now.duration_since(before) >= LEAST) {
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
        let thread = std::thread::Builder::new().name("lab-watch".to_owned()).spawn(look)?;
        Ok(Self { end, rows, thread: Some(thread) })
    }

    /// What was seen since the last time.
    pub fn rows(&self) -> Vec<ServerRow> {
        self.rows.try_iter().flatten().collect()
    }

    /// Looks once more and ends; gives what was seen since the last time.
    pub fn end(mut self) -> Vec<ServerRow> {
        // A thread that has gone has nothing to look at any more.
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.rows()
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
