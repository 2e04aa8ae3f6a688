//! Sets of statuses of HTTP.

use std::fmt;

/// A set of statuses from 100 to 999.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet {
    /// First and last status of each range.
    pub(crate) ranges: Vec<(u16, u16)>,
}

impl StatusSet {
    /// 200 to 399.
    pub fn success() -> Self {
        Self { ranges: vec![(200, 399)] }
    }

    /// Parses `200`, `2xx`, `200-299` or several of them, separated by commas. `None` for other numbers than 100 to
    /// 999, or ranges that end before they start.
    pub fn parse(text: &str) -> Option<Self> {
        let range = |part: &str| {
            if let Some(class) = part.strip_suffix("xx") {
                let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
                return Some((class * 100, class * 100 + 99));
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (100 <= first && first <= last && last <= 999).then_some((first, last))
        };
        let ranges = text.split(',').map(str::trim).map(range).collect::<Option<_>>()?;
        Some(Self { ranges })
    }

    /// Whether the set contains a status.
    pub fn contains(&self, status: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&status))
    }

    /// All other statuses.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for status in (100..=999).filter(|status| !self.contains(*status)) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == status => *last = status,
                _ => ranges.push((status, status)),
            }
        }
        Self { ranges }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().take(10).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        if self.ranges.len() > 10 { f.write_str(", …") } else { Ok(()) }
    }
}
