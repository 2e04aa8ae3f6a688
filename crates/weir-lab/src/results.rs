//! What a run leaves behind: a folder that says everything about it, in open formats.
//!
//! | file | what is in it |
//! |---|---|
//! | `run.json` | what was run, by which version, where ([`Run`]) |
//! | `series.csv` | a row a second and label ([`series`]) |
//! | `heat.csv` | how many response times fell into which range, a row a second ([`series`]) |
//! | `hist.hlog` | histograms, HdrHistogram's log format V2, tagged ([`hlog`]) |
//! | `server.csv` | observed processes and gauges, on the same time axis ([`ServerRow`]) |
//! | `events.jsonl` | what happened when, a JSON object a line ([`Event`]) |
//! | `summary.json` | the result ([`Summary`]) |
//! | `summary.csv` | the same with the columns of WSO2's published tables ([`table`]) |
//! | `summary-report.csv`, `aggregate-report.csv` | the same as JMeter's reports have it |
//! | `junit.xml` | cases and thresholds for continuous integration ([`junit`]) |
//! | `report.html` | for people, written last ([`crate::report`]) |
//!
//! While a run is under way, [`Folder`] appends; what a crash leaves can still be read.

mod comparison;
mod effects;
mod event;
mod folder;
pub mod hlog;
pub mod jmeter;
pub mod junit;
mod published;
mod run;
pub mod series;
mod server;
mod summary;
pub mod table;
mod total;

pub use comparison::{CellComparison, Comparison, Judgement, TimeRatio};
pub use event::{Event, EventKind};
pub use folder::{Folder, FolderError, Stored};
pub use published::Published;
pub use run::{Host, Run};
pub use series::Place;
pub use server::{ServerRow, server_rows};
pub use summary::{
    Cell, Factor, FactorEffects, Failure, Generator, Held, Open, RoundFigures, Server, Summary,
    Traits,
};
pub use total::Total;
