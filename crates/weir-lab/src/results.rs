//! The results folder of a run, in open formats.
//!
//! | file | content |
//! |---|---|
//! | `run.json` | command, scenario, version and host ([`Run`]) |
//! | `series.csv` | one row per second and label ([`series`]) |
//! | `heat.csv` | counts of response times by range, one row per second ([`series`]) |
//! | `hist.hlog` | histograms, HdrHistogram's log format V2, tagged ([`hlog`]) |
//! | `server.csv` | observed processes and gauges, on the same time axis ([`ServerRow`]) |
//! | `events.jsonl` | events, one JSON object per line ([`Event`]) |
//! | `summary.json` | the result ([`Summary`]) |
//! | `summary.csv` | the same with the columns of WSO2's published tables ([`table`]) |
//! | `summary-report.csv`, `aggregate-report.csv` | the same as JMeter's reports |
//! | `junit.xml` | cases and thresholds for continuous integration ([`junit`]) |
//! | `summary.md` | the result as Markdown ([`ci_summary`]) |
//! | `report.html` | the report, written last ([`crate::report`]) |
//!
//! [`Folder`] appends during a run, so that the files stay readable after a crash.

mod agents;
mod bar;
pub mod ci_summary;
mod comparison;
mod effects;
mod event;
mod export;
mod folder;
mod history;
pub mod hlog;
pub mod jmeter;
pub mod junit;
pub mod markdown;
pub mod page;
mod published;
mod run;
pub mod series;
mod server;
mod summary;
pub mod table;
mod total;

pub use agents::{AgentFigures, AgentRound};
pub use bar::{BarOutcome, BarResult};
pub use comparison::{CellComparison, Comparison, Judgement, TimeRatio};
pub(crate) use effects::{Levels, levels};
pub use event::{Event, EventKind};
pub use export::ExportFigures;
pub use folder::{Folder, FolderError, StoredRun};
pub use history::{CellHistory, ChangePoint, FigureHistory, History};
pub use published::Published;
pub use run::{Host, Run};
pub use series::RoundContext;
pub use server::ServerRow;
pub use summary::{
    CaseAttributes, Cell, Drained, Factor, FactorEffects, Failure, Generator, Open, Resources,
    RoundFigures, Server, Summary,
};
pub use total::Total;
