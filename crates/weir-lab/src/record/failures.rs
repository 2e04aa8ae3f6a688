//! Failed samples by message, with an example each.

use crate::program::Label;
use crate::sample::{ErrorKind, Sample};
use std::borrow::Cow;

/// Groups of a run, or of a second.
const MAX_GROUPS: usize = 256;
/// Groups of one label and kind; further messages share the group [`FURTHER`].
const MAX_MESSAGES: usize = 16;
/// The message of the last group of a label and kind.
const FURTHER: &str = "(further messages)";
/// Characters of messages and URLs.
const MAX_TEXT: usize = 500;
/// Bytes of a head that an example shows.
const MAX_HEAD_BYTES: usize = 4 * 1024;
/// Bytes of a body that an example shows.
const MAX_BODY_BYTES: usize = 1024;

/// Failed samples with the same label, kind and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureGroup {
    /// Their label.
    pub label: Label,
    /// Their kind.
    pub kind: ErrorKind,
    /// The failed check, the error, or the reason phrase of the response.
    pub message: String,
    /// Number of samples.
    pub count: u64,
    /// End of the first sample, in nanoseconds since the start of the run.
    pub first: u64,
    /// End of the last sample.
    pub last: u64,
    /// One of the first samples.
    pub example: Example,
}

/// A failed request and its response, with secrets: [`crate::redaction`] comes with the results, not on
/// the loop that measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// Status; 0 without a response.
    pub status: u16,
    /// The URL.
    pub url: String,
    /// Head and beginning of the body of the request; empty if nothing was sent.
    pub request: String,
    /// Likewise of the response; empty without a response.
    pub response: String,
}

/// The bytes of an exchange. Heads and bodies may be empty.
#[derive(Clone, Debug, Default)]
pub struct Exchange<'a> {
    /// Head of the request.
    pub request_head: &'a [u8],
    /// Body of the request.
    pub request_body: &'a [u8],
    /// Head of the response.
    pub response_head: &'a [u8],
    /// Decoded body of the response.
    pub response_body: Cow<'a, [u8]>,
}

/// All failures of a run, or of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    groups: Vec<FailureGroup>,
    /// Failed samples beyond the limit of groups.
    pub ungrouped: u64,
}

impl Failures {
    /// The groups, in the order of their first samples.
    #[must_use]
    pub fn groups(&self) -> &[FailureGroup] {
        &self.groups
    }

    /// Adds a failed sample. `exchange` is needed for the first sample of a group.
    pub(super) fn add<'e>(
        &mut self,
        sample: &Sample<'_>,
        kind: ErrorKind,
        exchange: impl FnOnce() -> Exchange<'e>,
    ) {
        let message = if sample.check.is_empty() { sample.message } else { sample.check };
        let message = beginning(message, MAX_TEXT);
        match self.place((sample.label, kind, sample.status), message) {
            Place::Group(at) => {
                let group = &mut self.groups[at];
                group.count += 1;
                group.last = sample.end;
            }
            Place::New(message) => self.groups.push(FailureGroup {
                label: sample.label,
                kind,
                message: message.to_owned(),
                count: 1,
                first: sample.end,
                last: sample.end,
                example: Example::new(sample, &exchange()),
            }),
            Place::None => self.ungrouped += 1,
        }
    }

    /// Adds a group of another loop or another second.
    pub fn add_group(&mut self, other: &FailureGroup) {
        match self.place((other.label, other.kind, other.example.status), &other.message) {
            Place::Group(at) => {
                let group = &mut self.groups[at];
                group.count += other.count;
                group.first = group.first.min(other.first);
                group.last = group.last.max(other.last);
            }
            Place::New(message) => {
                let message = message.to_owned();
                self.groups.push(FailureGroup { message, ..other.clone() });
            }
            Place::None => self.ungrouped += other.count,
        }
    }

    /// Adds those of another loop or another second.
    pub fn merge(&mut self, other: &Self) {
        self.ungrouped += other.ungrouped;
        for group in &other.groups {
            self.add_group(group);
        }
    }

    /// Where samples with this message belong. Few groups exist: a scan is as fast as a map.
    fn place<'m>(
        &self,
        (label, kind, status): (Label, ErrorKind, u16),
        message: &'m str,
    ) -> Place<'m> {
        let (mut messages, mut further) = (0, None);
        for (at, group) in self.groups.iter().enumerate() {
            if (group.label, group.kind) != (label, kind) {
                continue;
            }
            if group.message == FURTHER {
                further = Some(at);
            } else if group.message == message && group.example.status == status {
                return Place::Group(at);
            }
            messages += 1;
        }
        match further {
            Some(at) => Place::Group(at),
            None if self.groups.len() >= MAX_GROUPS => Place::None,
            None if messages >= MAX_MESSAGES => Place::New(FURTHER),
            None => Place::New(message),
        }
    }
}

impl FailureGroup {
    /// The status of all its samples; `None` if they may have several.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        (self.message != FURTHER).then_some(self.example.status)
    }
}

/// The group of a sample.
enum Place<'m> {
    /// An existing one.
    Group(usize),
    /// A new one with this message.
    New(&'m str),
    /// None is left.
    None,
}

impl Example {
    fn new(sample: &Sample<'_>, exchange: &Exchange<'_>) -> Self {
        Self {
            status: sample.status,
            url: beginning(sample.url, MAX_TEXT).to_owned(),
            request: message(exchange.request_head, exchange.request_body),
            response: message(exchange.response_head, &exchange.response_body),
        }
    }
}

/// Head and beginning of the body as text.
fn message(head: &[u8], body: &[u8]) -> String {
    let shown = |bytes: &[u8], most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
    };
    let mut text = shown(head, MAX_HEAD_BYTES).replace("\r\n", "\n").trim_end().to_owned();
    if head.len() > MAX_HEAD_BYTES {
        text.push_str("\n… (the head has ");
        text.push_str(&format!("{} bytes)", head.len()));
    }
    if !body.is_empty() {
        text.push_str("\n\n");
        text.push_str(&shown(body, MAX_BODY_BYTES));
    }
    if body.len() > MAX_BODY_BYTES {
        text.push_str(&format!("… (the body has {} bytes)", body.len()));
    }
    text
}

/// At most `most` bytes, up to the end of a character.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(message: &str, count: u64, (first, last): (u64, u64)) -> FailureGroup {
        FailureGroup {
            label: Label(0),
            kind: ErrorKind::Check,
            message: message.to_owned(),
            count,
            first,
            last,
            example: Example::default(),
        }
    }

    #[test]
    fn samples_with_the_same_message_are_counted_together() {
        let mut all = Failures::default();
        for found in [group("a", 2, (5, 9)), group("b", 1, (6, 6)), group("a", 3, (2, 7))] {
            all.add_group(&found);
        }
        assert_eq!(all.groups(), [group("a", 5, (2, 9)), group("b", 1, (6, 6))]);
    }

    #[test]
    fn samples_with_another_status_are_another_group() {
        let with = |status| {
            let mut found = group("the body has no id", 2, (1, 1));
            found.example.status = status;
            found
        };
        let mut all = Failures::default();
        [with(200), with(503), with(200)].iter().for_each(|found| all.add_group(found));
        let seen: Vec<_> = all.groups().iter().map(|group| (group.status(), group.count)).collect();
        assert_eq!(seen, [(Some(200), 4), (Some(503), 2)]);
        let further = FailureGroup { message: FURTHER.to_owned(), ..with(200) };
        assert_eq!(further.status(), None);
    }

    #[test]
    fn groups_are_bounded_and_no_sample_is_lost() {
        let mut all = Failures::default();
        for label in 0..20 {
            for number in 0..100 {
                let message = format!("expected {number}");
                all.add_group(&FailureGroup { label: Label(label), ..group(&message, 1, (1, 1)) });
            }
        }
        assert_eq!(all.groups().len(), MAX_GROUPS);
        let first = |found: &&FailureGroup| found.label == Label(0);
        let messages: Vec<&FailureGroup> = all.groups().iter().filter(first).collect();
        assert_eq!(messages.len(), MAX_MESSAGES + 1);
        let further = messages.last().expect("some");
        assert_eq!((further.message.as_str(), further.count), (FURTHER, 84));
        let grouped: u64 = all.groups().iter().map(|group| group.count).sum();
        assert_eq!(grouped + all.ungrouped, 2_000);
    }

    #[test]
    fn examples_are_short() {
        let head = b"POST /login HTTP/1.1\r\nAuthorization: Basic YTpi\r\n\r\n";
        let body = format!("{{\"password\": \"p\", \"x\": \"{}\"}}", "y".repeat(2_000));
        let text = message(head, body.as_bytes());
        assert!(text.starts_with(
            "POST /login HTTP/1.1\nAuthorization: Basic YTpi\n\n{\"password\": \"p\", \"x\": \"yyy"
        ));
        assert!(text.ends_with("y… (the body has 2026 bytes)"), "{text}");
        assert_eq!(message(b"", b""), "");
        let headless = message(b"", b"{\n  \"password\": \"p\"\n}");
        assert_eq!(crate::redaction::exchange(&headless), "{\n  \"password\": ***\n}");
    }
}
