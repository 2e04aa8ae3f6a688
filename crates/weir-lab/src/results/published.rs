//! Published figures, shown with the measured ones.

use super::{Cell, Summary};
use crate::figures::LabelFigures;
use serde::{Deserialize, Serialize};

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Kind: `throughput` (per second), `mean`, `p50` … `max` (response time in milliseconds),
    /// `error rate` (a share) or `relative throughput` (a factor).
    pub what: String,
    /// Value, in the same unit as the measured figure.
    pub value: f64,
    /// Source and hardware.
    pub source: String,
    /// The reference case of a relative figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Published {
    /// The measured figure of `cell` in the same unit; `None` without one.
    #[must_use]
    pub fn measured(&self, summary: &Summary, cell: &Cell) -> Option<f64> {
        let mean = |cell: &Cell| cell.throughput.map(|spread| spread.mean);
        let total = cell.total().filter(|total| total.samples > 0);
        let times = total.map(|total| &total.response);
        match self.what.as_str() {
            "throughput" => mean(cell),
            "relative throughput" => {
                let other = summary.cells.iter().find(|cell| Some(&cell.name) == self.to.as_ref());
                Some(mean(cell)? / mean(other?).filter(|other| *other > 0.0)?)
            }
            "error rate" => total.map(LabelFigures::error_share),
            name => times?.named(name),
        }
    }

    /// Name for reports.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.to {
            Some(to) => format!("throughput, relative to {to}"),
            None => self.what.clone(),
        }
    }

    /// Formats a value: `2660/s`, `168 ms`, `84.0 %`, `0.755`.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        match self.what.as_str() {
            "throughput" => format!("{value:.0}/s"),
            "relative throughput" => format!("{value:.3}"),
            "error rate" => format!("{:.1} %", 100.0 * value),
            _ if value < 10.0 => format!("{value:.2} ms"),
            _ => format!("{value:.0} ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;
    use crate::stats::spread;

    #[test]
    fn each_figure_has_its_like() {
        let cell = |name: &str, rate: f64| Cell {
            name: name.to_owned(),
            throughput: spread(&[rate]),
            labels: vec![LabelFigures {
                samples: 100,
                errors: [("timeout".to_owned(), 25)].into(),
                response: Times { p99: 12.0, mean: 3.0, max: 40.0, ..Times::default() },
                ..LabelFigures::default()
            }],
            ..Cell::default()
        };
        let cells = vec![cell("tracker=true", 60.0), cell("tracker=false", 80.0)];
        let summary = Summary { cells, ..Summary::default() };
        let found = |what: &str, to: Option<&str>| {
            let published = Published {
                what: what.to_owned(),
                to: to.map(str::to_owned),
                ..Published::default()
            };
            let measured = published.measured(&summary, &summary.cells[0])?;
            Some(published.show(measured))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found("throughput", None), text("60/s"));
        assert_eq!(found("p99", None), text("12 ms"));
        assert_eq!(found("mean", None), text("3.00 ms"));
        assert_eq!(found("error rate", None), text("25.0 %"));
        let relative = found("relative throughput", Some("tracker=false"));
        assert_eq!(relative, text("0.750"));
        assert_eq!(found("relative throughput", Some("nobody")), None);
        assert_eq!(found("p12", None), None);
    }
}
