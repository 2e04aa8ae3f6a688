//! The results folder: written during a run, read by comparison and report.

use super::{
    Event, RoundContext, Run, ServerRow, Summary, ci_summary, hlog, jmeter, junit, series, table,
};
use crate::program::Label;
use crate::record::{Interval, histogram};
use crate::tables::Report;
use hdrhistogram::Histogram;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Seconds of an interval of `hist.hlog`.
const HISTOGRAM_SECONDS: u64 = 10;

/// Why a folder cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file could not be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file has invalid content.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The folder already has results.
    #[error("{} already has results; a run needs a new folder", .0.display())]
    InUse(PathBuf),
}

/// The folder of a run in progress. Every method appends; only [`Folder::finish`] writes complete
/// files.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    series: csv::Writer<File>,
    heat: csv::Writer<File>,
    server: csv::Writer<File>,
    events: BufWriter<File>,
    histograms: BufWriter<File>,
    pending: Pending,
}

/// Histograms of the seconds since the last line of `hist.hlog`.
#[derive(Debug, Default)]
struct Pending {
    start: f64,
    seconds: u64,
    /// Service and response times by label; response times in an open model only.
    labels: Vec<(Histogram<u64>, Option<Histogram<u64>>)>,
}

impl Folder {
    /// Creates the folder with `run.json`. The log of histograms starts at `start`.
    ///
    /// # Errors
    /// The folder cannot be created, or already has results.
    pub fn create(path: &Path, run: &Run, start: SystemTime) -> Result<Self, FolderError> {
        at(path, fs::create_dir_all(path))?;
        if path.join("run.json").exists() {
            return Err(FolderError::InUse(path.to_owned()));
        }
        let create_file = |name: &str| {
            let path = path.join(name);
            at(&path, File::create(&path))
        };
        let table = |name: &str| Ok::<_, FolderError>(csv::Writer::from_writer(create_file(name)?));
        let mut folder = Self {
            series: table("series.csv")?,
            heat: table("heat.csv")?,
            server: table("server.csv")?,
            events: BufWriter::new(create_file("events.jsonl")?),
            histograms: BufWriter::new(create_file("hist.hlog")?),
            pending: Pending::default(),
            path: path.to_owned(),
        };
        write_json(&path.join("run.json"), run)?;
        at(path, folder.series.write_record(series::columns()))?;
        at(path, folder.heat.write_record(["time", "cell", "counts"]))?;
        at(path, hlog::head(&mut folder.histograms, start))?;
        Ok(folder)
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a second of load. `cell` is the name of the case, `names` are the labels of the
    /// program, `transactions` repeat requests.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn second(
        &mut self,
        context: RoundContext,
        cell: &str,
        second: &Interval,
        names: &[String],
        transactions: &[Label],
    ) -> Result<(), FolderError> {
        for row in series::rows(context, second, names, transactions) {
            at(&self.path.join("series.csv"), self.series.write_record(row))?;
        }
        let time = format!("{:.3}", context.start + second.second as f64 + 1.0);
        let heat = [time, context.cell.to_string(), series::heat(second, transactions)];
        at(&self.path.join("heat.csv"), self.heat.write_record(heat))?;
        self.add_histograms(context, second);
        if self.pending.seconds >= HISTOGRAM_SECONDS {
            self.write_histograms(cell, names)?;
        }
        Ok(())
    }

    /// Ends a round: writes the remaining histograms and flushes all files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn end_round(&mut self, cell: &str, names: &[String]) -> Result<(), FolderError> {
        self.write_histograms(cell, names)?;
        self.flush()
    }

    /// Adds an observation of the server, the host or a gauge.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn server_row(&mut self, row: &ServerRow) -> Result<(), FolderError> {
        at(&self.path.join("server.csv"), self.server.serialize(row))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<(), FolderError> {
        let written = serde_json::to_string(event)
            .map_err(io::Error::from)
            .and_then(|line| writeln!(self.events, "{line}"));
        at(&self.path.join("events.jsonl"), written)
    }

    /// Ends the run: writes `run.json` again, with its end, and all forms of the summary.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self, run: &Run, summary: &Summary) -> Result<PathBuf, FolderError> {
        self.flush()?;
        write_json(&self.path.join("run.json"), run)?;
        write_summary(&self.path, run, summary)?;
        Ok(self.path)
    }

    fn add_histograms(&mut self, context: RoundContext, second: &Interval) {
        let pending = &mut self.pending;
        if pending.seconds == 0 {
            pending.start = context.start + second.second as f64;
            pending.labels.clear();
        }
        pending.seconds += 1;
        for (at, tally) in second.labels.iter().enumerate() {
            if pending.labels.len() <= at {
                pending.labels.push((histogram(), tally.response.is_some().then(histogram)));
            }
            let (service, response) = &mut pending.labels[at];
            // Both grow automatically and have the same digits.
            let _ = service.add(&tally.service);
            if let (Some(sum), Some(times)) = (response, &tally.response) {
                let _ = sum.add(times);
            }
        }
    }

    fn write_histograms(&mut self, cell: &str, names: &[String]) -> Result<(), FolderError> {
        let pending = std::mem::take(&mut self.pending);
        let start = Duration::from_secs_f64(pending.start.max(0.0));
        let length = Duration::from_secs(pending.seconds);
        for (name, (service, response)) in names.iter().zip(pending.labels) {
            let times = [(false, Some(service)), (true, response)];
            for (is_response, histogram) in times {
                let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else {
                    continue;
                };
                let tag = hlog::tag(cell, name, is_response);
                let interval = hlog::Interval { tag, start, length, histogram };
                at(&self.path.join("hist.hlog"), hlog::line(&mut self.histograms, &interval))?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FolderError> {
        let flushed = self
            .series
            .flush()
            .and_then(|()| self.heat.flush())
            .and_then(|()| self.server.flush())
            .and_then(|()| self.events.flush())
            .and_then(|()| self.histograms.flush());
        at(&self.path, flushed)
    }
}

/// A stored run.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Path of the folder.
    pub path: PathBuf,
    /// `run.json`.
    pub run: Run,
    /// `summary.json`.
    pub summary: Summary,
}

impl StoredRun {
    /// Reads run and summary.
    ///
    /// # Errors
    /// The folder has no finished run, or its files are damaged.
    pub fn read(path: &Path) -> Result<Self, FolderError> {
        let run = read_json(&path.join("run.json"))?;
        let summary = read_json(&path.join("summary.json"))?;
        Ok(Self { path: path.to_owned(), run, summary })
    }

    /// Writes all forms of the summary again, except the report.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn rewrite(&self) -> Result<(), FolderError> {
        write_summary(&self.path, &self.run, &self.summary)
    }

    /// Reads `events.jsonl`; invalid lines are skipped.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let text = fs::read_to_string(self.path.join("events.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Writes all forms of the summary except the report.
///
/// # Errors
/// A file cannot be written.
fn write_summary(path: &Path, run: &Run, summary: &Summary) -> Result<(), FolderError> {
    write_json(&path.join("summary.json"), summary)?;
    write_file(path.join("summary.md"), |out| ci_summary::write(out, run, summary))?;
    write_file(path.join("summary.csv"), |out| table::write(out, summary))?;
    for (name, report) in
        [("summary-report.csv", Report::Summary), ("aggregate-report.csv", Report::Aggregate)]
    {
        write_file(path.join(name), |out| jmeter::write(out, summary, report))?;
    }
    write_file(path.join("junit.xml"), |out| junit::write(out, run, summary))
}

fn write_file<E: Into<io::Error>>(
    path: PathBuf,
    write: impl FnOnce(BufWriter<File>) -> Result<(), E>,
) -> Result<(), FolderError> {
    at(&path, File::create(&path).and_then(|file| write(BufWriter::new(file)).map_err(E::into)))
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), FolderError> {
    let text = at(path, serde_json::to_string_pretty(value))?;
    at(path, fs::write(path, text + "\n"))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let text = at(path, fs::read_to_string(path))?;
    serde_json::from_str(&text)
        .map_err(|error| FolderError::Content { path: path.to_owned(), problem: error.to_string() })
}

/// Adds the path to an error.
fn at<T, E: Into<io::Error>>(path: &Path, result: Result<T, E>) -> Result<T, FolderError> {
    result.map_err(|error| FolderError::File { path: path.to_owned(), source: error.into() })
}
