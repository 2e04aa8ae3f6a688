//! Checks of an answer.

use super::Text;
use regex::bytes::Regex;
use serde_json_path::JsonPath;
use std::time::Duration;
use weir_wire::Headers;

/// A set of statuses from 100 to 999.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet {
    /// First and last of each run, in order.
    ranges: Vec<(u16, u16)>,
}

impl StatusSet {
    /// 200 to 399.
    pub fn success() -> Self {
        Self { ranges: vec![(200, 399)] }
    }

    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// All.
    pub fn all() -> Self {
        Self { ranges: vec![(0, u16::MAX)] }
    }

    /// Those from `first` to `last`, and those there already.
    pub fn add(&mut self, first: u16, last: u16) {
        self.ranges.push((first, last));
    }

    /// Reads `200`, `2xx`, `200-299` or several of them with commas.
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::none();
        for part in text.split(',').map(str::trim) {
            if let Some(class) = part.strip_suffix("xx") {
                let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
                set.add(class * 100, class * 100 + 99);
            } else if let Some((first, last)) = part.split_once('-') {
                set.add(first.trim().parse().ok()?, last.trim().parse().ok()?);
            } else {
                let status = part.parse().ok()?;
                set.add(status, status);
            }
        }
        Some(set)
    }

    /// Whether it is one of them.
    pub fn has(&self, status: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&status))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// A check.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is said if it fails; without one the check says what it expected and found.
    pub message: Option<Text>,
    /// What is checked.
    pub kind: CheckKind,
}

/// What is checked.
#[derive(Clone, Debug)]
pub enum CheckKind {
    /// The status is one of these; decides in place of [`super::Request::success`].
    Status(StatusSet),
    /// A text holds, is or matches others.
    Text {
        /// Which text.
        field: Field,
        /// How they are compared.
        comparison: Comparison,
        /// With what.
        patterns: Vec<Text>,
        /// One suffices; otherwise all must hold.
        any: bool,
        /// The opposite must hold, of each pattern.
        not: bool,
        /// The status alone does not make the sample fail (JMeter's "ignore status").
        ignore_status: bool,
    },
    /// A regular expression without variables is found in a text: faster than a pattern that is
    /// compiled each time.
    Regex {
        /// Which text.
        field: Field,
        /// The expression.
        regex: Regex,
        /// The opposite must hold.
        not: bool,
    },
    /// It took no longer than this.
    Duration(Duration),
    /// So many bytes.
    Size {
        /// Of which text; `None` is all of the answer, head and body, as it came.
        field: Option<Field>,
        /// How the length is compared with `bytes`.
        order: SizeOrder,
        /// Bytes.
        bytes: u64,
    },
    /// The body is JSON and this path has something.
    Json {
        /// The path.
        path: JsonPath,
        /// What it must have; `None` is anything.
        expected: Option<Text>,
        /// `expected` is a regular expression.
        regex: bool,
        /// The value must be `null`.
        null: bool,
        /// The opposite must hold.
        not: bool,
    },
}

/// How sizes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOrder {
    /// `=`
    Equal,
    /// `≠`
    NotEqual,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `≥`
    GreaterOrEqual,
    /// `≤`
    LessOrEqual,
}

/// Which text of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The body, decoded.
    Body,
    /// The status as text.
    Status,
    /// The reason phrase.
    Reason,
    /// Status line and fields of the answer, a line each.
    Headers,
    /// The URL of the request (the last one, after redirects).
    Url,
    /// Fields of the request, a line each.
    RequestHeaders,
    /// The body of the request.
    RequestBody,
}

/// How texts are compared (JMeter's words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The pattern is in there, as it is.
    Substring,
    /// It is the pattern, as it is.
    Equals,
    /// The pattern, a regular expression, is found.
    Contains,
    /// The pattern, a regular expression, is all of it.
    Matches,
}

/// An answer, as checks and extractors see it.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Status.
    pub status: u16,
    /// Status line and fields as they came.
    pub head: &'a [u8],
    /// The fields, taken apart.
    pub headers: &'a Headers,
    /// The body, decoded.
    pub body: &'a [u8],
    /// Bytes of the answer, as they came.
    pub bytes: u64,
    /// The URL asked for.
    pub url: &'a str,
    /// Head of the request, as it was sent.
    pub request_head: &'a [u8],
    /// Body of the request.
    pub request_body: &'a [u8],
    /// From the request to the end of the answer.
    pub elapsed: Duration,
}
