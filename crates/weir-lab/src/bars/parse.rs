//! Bars as text.

use super::{Bar, Bound, Metric, Unit};
use std::str::FromStr;
use strum::VariantNames;
use weir_document::units;

/// Why a bar is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarError {
    /// Not `METRIC of CONTENDER OPERATOR BOUND`.
    #[error("a bar is METRIC of CONTENDER [for REQUEST], then <=, >= or within, and a bound")]
    Form,
    /// Unknown metric.
    #[error("{0:?} is not a metric; metrics are {list}", list = metrics().join(", "))]
    Metric(String),
    /// A figure that requests do not have.
    #[error(
        "`for` is of response times: mean, p50, p99, p99.9; `{0}` has no figure for each request"
    )]
    Label(&'static str),
    /// Invalid amount.
    #[error("{0:?} is not {1}")]
    Amount(String, &'static str),
}

/// Names of the metrics. A counter has a name of its own.
fn metrics() -> Vec<&'static str> {
    let is_named = |name: &&str| Metric::from_str(name).is_ok();
    Metric::VARIANTS.iter().copied().filter(is_named).collect()
}

impl Bar {
    /// Reads a bar.
    ///
    /// # Errors
    /// The text is not a bar.
    pub fn parse(text: &str) -> Result<Self, BarError> {
        Self::with_counters(text, &[])
    }

    /// Reads a bar that may be about one of these counters.
    ///
    /// # Errors
    /// The text is not a bar.
    pub fn with_counters(text: &str, counters: &[String]) -> Result<Self, BarError> {
        let text = text.trim();
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_operator = |word: &&str| matches!(*word, "<=" | "≤" | ">=" | "≥" | "within");
        let operator_at = words.iter().position(is_operator).ok_or(BarError::Form)?;
        let (comparison, bound) = (&words[..operator_at], &words[operator_at + 1..]);
        let (metric, subject, label) = match comparison {
            [metric, "of", subject] => (metric, subject, None),
            // Requests without a name of their own have one such as `GET /orders`.
            [metric, "of", subject, "for", label @ ..] if !label.is_empty() => {
                (metric, subject, Some(label.join(" ")))
            }
            _ => return Err(BarError::Form),
        };
        let counter = counters.iter().find(|name| name == metric).cloned();
        let metric = match counter {
            Some(_) => Metric::Counter,
            None => Metric::from_str(metric).map_err(|_| BarError::Metric((*metric).to_owned()))?,
        };
        if label.is_some() && !metric.is_of_responses() {
            return Err(BarError::Label(metric.into()));
        }
        let bound = match words[operator_at] {
            "<=" | "≤" => bounded(metric, false, bound)?,
            ">=" | "≥" => bounded(metric, true, bound)?,
            _ => within(bound)?,
        };
        let subject = (*subject).to_owned();
        Ok(Self { text: text.to_owned(), metric, counter, subject, label, bound })
    }
}

fn bounded(metric: Metric, at_least: bool, words: &[&str]) -> Result<Bound, BarError> {
    let name = |name: &&str| (*name).to_owned();
    Ok(match words {
        [factor, "x" | "×", reference] => {
            let wrong = || BarError::Amount((*factor).to_owned(), "a factor such as 0.8");
            let factor: f64 = factor.parse().map_err(|_| wrong())?;
            if !(factor > 0.0 && factor.is_finite()) {
                return Err(wrong());
            }
            Bound::Ratio { reference: name(reference), at_least, factor }
        }
        [reference, "+", amount] => {
            let amount = metric.amount(amount)?;
            Bound::Difference { reference: name(reference), at_least, amount }
        }
        [reference, "-", amount] => {
            let amount = -metric.amount(amount)?;
            Bound::Difference { reference: name(reference), at_least, amount }
        }
        [word] => match metric.amount(word) {
            Ok(amount) => Bound::Absolute { at_least, amount },
            // A number with a wrong unit is no name.
            Err(wrong) if word.starts_with(|c: char| c.is_ascii_digit()) => return Err(wrong),
            Err(_) => Bound::Ratio { reference: name(word), at_least, factor: 1.0 },
        },
        _ => return Err(BarError::Form),
    })
}

fn within(words: &[&str]) -> Result<Bound, BarError> {
    let [percent, "of", reference] = words else { return Err(BarError::Form) };
    let wrong = |_| BarError::Amount((*percent).to_owned(), "a percentage such as 3%");
    let hundredths = units::percent(percent).map_err(wrong)?;
    Ok(Bound::Within {
        reference: (*reference).to_owned(),
        share: f64::from(hundredths) / 10_000.0,
    })
}

/// Units of times, in microseconds.
const TIMES: [(&str, f64); 5] = [("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("ms", 1e3), ("s", 1e6)];

impl Metric {
    /// An amount in the unit of the metric: microseconds of CPU, milliseconds of responses, requests
    /// per second, bytes.
    fn amount(self, text: &str) -> Result<f64, BarError> {
        let wrong = |what| BarError::Amount(text.to_owned(), what);
        let micros = || {
            let unit = TIMES.iter().find_map(|(unit, micros)| {
                Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * micros)
            });
            unit.filter(|micros| micros.is_finite()).ok_or(wrong("a time such as 40us"))
        };
        match self.unit() {
            Unit::Micros => micros(),
            Unit::Millis => Ok(micros()? / 1e3),
            Unit::PerSecond => {
                let number = text.strip_suffix("/s").unwrap_or(text);
                number.parse().map_err(|_| wrong("a rate such as 1000/s"))
            }
            Unit::Bytes | Unit::FewBytes => {
                let bytes = units::size(text).map_err(|_| wrong("a size such as 25MiB"))?;
                Ok(bytes as f64)
            }
            Unit::Count => text.parse().map_err(|_| wrong("a number such as 1000")),
            Unit::Percent => {
                let hundredths =
                    units::percent(text).map_err(|_| wrong("a percentage such as 0.1%"))?;
                Ok(f64::from(hundredths) / 100.0)
            }
            Unit::PerRequest => text.parse().map_err(|_| wrong("a number such as 1.2")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Bound {
        Bar::parse(text).expect(text).bound
    }

    #[test]
    fn every_form_is_read() {
        let bar = Bar::parse("cpu of weir <= 0.8 x nginx").unwrap();
        assert_eq!((bar.metric, bar.subject.as_str()), (Metric::Cpu, "weir"));
        let nginx = || "nginx".to_owned();
        let ratio = |at_least, factor| Bound::Ratio { reference: nginx(), at_least, factor };
        assert_eq!(bar.bound, ratio(false, 0.8));
        assert_eq!(bound("rate of weir >= 1.2 × nginx"), ratio(true, 1.2));
        assert_eq!(bound("p99 of weir <= nginx"), ratio(false, 1.0));
        let above = Bound::Difference { reference: nginx(), at_least: false, amount: 40.0 };
        assert_eq!(bound("cpu of weir <= nginx + 40us"), above);
        let absolute = |at_least, amount| Bound::Absolute { at_least, amount };
        assert_eq!(bound("memory of weir <= 25MiB"), absolute(false, 25.0 * 1024.0 * 1024.0));
        assert_eq!(bound("p99.9 of weir <= 1.5s"), absolute(false, 1500.0));
        let search = Bar::parse("p99 of weir for search <= 40ms").unwrap();
        assert_eq!(
            (search.label.as_deref(), search.bound),
            (Some("search"), absolute(false, 40.0))
        );
        assert_eq!(bound("start of weir <= 100ms"), absolute(false, 100.0));
        assert_eq!(bound("drain-time of weir <= 5s"), absolute(false, 5000.0));
        assert_eq!(bound("drained-rate of weir >= 0.8 x nginx"), ratio(true, 0.8));
        assert_eq!(bound("descriptors of weir >= 10000"), absolute(true, 10_000.0));
        assert_eq!(bound("rate of weir >= 1000/s"), absolute(true, 1000.0));
        assert_eq!(bound("errors of weir <= 0.1%"), absolute(false, 0.1));
        let tries = Bar::with_counters("tries of weir <= 1.2", &["tries".to_owned()]).unwrap();
        assert_eq!((tries.metric, tries.counter.as_deref()), (Metric::Counter, Some("tries")));
        assert_eq!(tries.bound, absolute(false, 1.2));
        assert_eq!(
            bound("rate of weir within 3% of nginx"),
            Bound::Within { reference: nginx(), share: 0.03 }
        );
    }

    #[test]
    fn a_wrong_part_is_named() {
        let wrong = |text: &str| Bar::parse(text).unwrap_err().to_string();
        assert!(wrong("weir <= nginx").contains("METRIC of CONTENDER"));
        assert!(wrong("cpu of weir = nginx").contains("<=, >= or within"));
        assert!(wrong("speed of weir <= nginx").contains("metrics are cpu, generator-cpu, rate"));
        assert!(wrong("cpu of weir <= 40MiB").contains("a time such as 40us"));
        assert!(wrong("cpu of weir for search <= 40us").contains("`cpu` has no figure"));
        assert!(wrong("descriptors of weir <= 40MiB").contains("a number such as 1000"));
        assert!(wrong("errors of weir <= 3us").contains("a percentage such as 0.1%"));
        let counter = wrong("counter of weir <= 3");
        assert!(counter.contains("is not a metric") && !counter.contains(", counter"), "{counter}");
        assert!(wrong("cpu of weir <= fast x nginx").contains("a factor"));
        assert!(wrong("rate of weir within some of nginx").contains("a percentage"));
        assert!(wrong("cpu of weir <= -1 x nginx").contains("a factor"));
    }
}
