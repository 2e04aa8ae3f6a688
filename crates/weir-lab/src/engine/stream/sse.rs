//! Server-sent events (WHATWG HTML, section 9.2).

use super::{Message, Messages, Opened, has_value, violation};
use crate::engine::closed::nanos;
use crate::engine::event_loop::Loop;
use crate::engine::request_error::RequestError;
use crate::engine::send::ExchangeTotals;
use crate::engine::user::User;
use crate::program::EventsEnd;
use crate::sample::ErrorKind;

/// Largest event, with its names of fields.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    /// Its type; `message` if it has none.
    kind: Vec<u8>,
    data: Vec<u8>,
    /// Bytes of its lines.
    bytes: u64,
}

/// Reads events from the bytes of a body.
#[derive(Debug, Default)]
struct Parser {
    /// An incomplete line.
    line: Vec<u8>,
    /// The last line ended with a carriage return, of which a line feed is a part.
    after_return: bool,
    event: Event,
    has_data: bool,
}

impl Parser {
    /// Reads bytes; `found` gets each complete event.
    fn read(&mut self, bytes: &[u8], found: &mut Vec<Event>) -> Result<(), RequestError> {
        for &byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => self.event.bytes += u64::from(self.event.bytes > 0),
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    self.event.bytes += 1;
                    self.end_line(found);
                }
                byte => {
                    self.event.bytes += 1;
                    self.line.push(byte);
                }
            }
            if self.event.bytes > MAX_EVENT_BYTES as u64 {
                return Err(violation(format!("an event exceeds {MAX_EVENT_BYTES} bytes")));
            }
        }
        Ok(())
    }

    fn end_line(&mut self, found: &mut Vec<Event>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            // A comment or an event without data is none.
            if std::mem::take(&mut self.has_data) {
                found.push(event);
            }
            return;
        }
        let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.kind = value.to_vec(),
            _ => {}
        }
    }
}

impl EventsEnd {
    /// Whether the stream ends with this event.
    fn is_last(&self, count: u64, event: &Event) -> bool {
        let kind: &[u8] = if event.kind.is_empty() { b"message" } else { &event.kind };
        self.count.is_some_and(|limit| count >= limit)
            || self.event.as_ref().is_some_and(|last| kind == last.as_bytes())
            || self.data.as_ref().is_some_and(|last| last.is_match(&event.data))
    }

    /// The server ended the stream.
    fn ended(&self, count: u64) -> Result<(), RequestError> {
        if self.count.is_none() && self.event.is_none() && self.data.is_none() {
            return Ok(());
        }
        let expected = match (self.count, &self.event) {
            (Some(limit), _) => format!("{limit} events"),
            (None, Some(event)) => format!("the event {event:?}"),
            (None, None) => "the event with the expected data".to_owned(),
        };
        let message = format!("the stream ended after {count} events, before {expected}");
        Err(RequestError::new(ErrorKind::Closed, message))
    }
}

impl User {
    /// Reads events until the end of the stream. The first event is the first byte of the sample.
    pub(super) async fn events(
        &mut self,
        events: &Loop,
        mut opened: Opened,
        end: &EventsEnd,
        messages: Messages<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        if !has_value(self.captured.headers(), "content-type", "text/event-stream") {
            return Err(violation("the response has no content type text/event-stream"));
        }
        let last = end.time.map_or(u64::MAX, |time| opened.start.saturating_add(nanos(time)));
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        let (mut count, mut previous) = (0, opened.start);
        // The head is counted.
        let before = sum.received - opened.source.received();
        loop {
            let silent = previous.saturating_add(nanos(opened.timeout));
            let part = opened.source.next();
            let part = self.within(events, silent.min(last), part).await;
            sum.received = before + opened.source.received();
            let now = events.now();
            sum.end = now;
            match part {
                Some(Ok(Some(data))) => {
                    sum.body += data.len() as u64;
                    if opened.captures {
                        self.captured.add(&data);
                    }
                    parser.read(&data, &mut found)?;
                }
                Some(Ok(None)) => return end.ended(count),
                Some(Err(fault)) => return Err(fault),
                None if self.now >= last || self.must_end() => return Ok(()),
                None if self.now >= silent => {
                    let why = format!("no event within {:?}", opened.timeout);
                    return Err(RequestError::new(ErrorKind::Timeout, why));
                }
                // Woken without a reason of its own.
                None => {}
            }
            for event in found.drain(..) {
                count += 1;
                if count == 1 {
                    sum.first_byte = now;
                }
                let message = Message { start: previous, end: now, received: event.bytes, sent: 0 };
                previous = now;
                self.message(events, messages, message, None);
                if end.is_last(count, &event) {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(parts: &[&str]) -> Vec<(String, String)> {
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        for part in parts {
            parser.read(part.as_bytes(), &mut found).expect("small events");
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.iter().map(|event| (text(&event.kind), text(&event.data))).collect()
    }

    #[test]
    fn events_have_lines_of_any_kind() {
        let event = |kind: &str, data: &str| (kind.to_owned(), data.to_owned());
        let text =
            "\u{3a} comment\n\nevent: a\rdata: 1\r\rdata:2\r\ndata: 3\r\n\r\nid: 7\n\ndata\n\n";
        let expected = [event("a", "1"), event("", "2\n3"), event("", "")];
        assert_eq!(parsed(&[text]), expected);
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(parsed(&bytes), expected, "byte by byte");
        assert_eq!(parsed(&["data: incomplete\n"]), []);
    }

    #[test]
    fn an_event_has_a_limit() {
        let mut parser = Parser::default();
        assert!(parser.read(&vec![b'x'; MAX_EVENT_BYTES + 1], &mut Vec::new()).is_err());
    }
}
