//! Frames between the Lab and the helper: a length of four bytes, then the content. Numbers are
//! big-endian; a text is its length and UTF-8, the length -1 is none.

use crate::program::{ScriptElement, ScriptRole};
use std::borrow::Cow;

/// Largest frame of a reply.
pub(super) const MAX_FRAME_BYTES: usize = 64 << 20;

/// A sample as JMeter has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) label: String,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) success: bool,
    /// The sample is not counted.
    pub(crate) ignored: bool,
    pub(crate) response_headers: String,
    pub(crate) request_headers: String,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: String,
    pub(crate) url: Option<String>,
    /// The body of the request.
    pub(crate) data: String,
    pub(crate) method: String,
    /// Times in milliseconds.
    pub(crate) elapsed: u64,
    pub(crate) latency: u64,
    pub(crate) connect: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// A call of a script.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    /// The user, unique in the run.
    pub(crate) user: u32,
    /// Index of the script.
    pub(crate) script: u32,
    /// Index of the current sampler.
    pub(crate) sampler: Option<u32>,
    /// The sampler has none of the changes of earlier scripts.
    pub(crate) is_fresh: bool,
    /// The reply has the request of the sampler.
    pub(crate) describes: bool,
    /// Name of the thread, its number in the group, name of the group.
    pub(crate) thread: (&'c str, u32, &'c str),
    /// Number of the current iteration, from 1.
    pub(crate) iteration: u64,
    /// Variables that have changed since the last call of the user.
    pub(crate) variables: &'c [(String, Option<String>)],
    /// Properties that have changed since the last call of any user.
    pub(crate) properties: &'c [(String, Option<String>)],
    /// The previous sample, if it has changed.
    pub(crate) previous: Option<&'c Sample>,
    /// The sample of a transaction, which the script judges instead of the previous one.
    pub(crate) parent: Option<&'c Sample>,
}

/// What a script demands from the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// Nothing.
    #[default]
    Next,
    /// Start the next iteration.
    NextIteration,
    /// End the user.
    StopUser,
    /// Stop the run after the samples in flight.
    StopRun,
    /// Stop the run immediately.
    StopNow,
}

/// The result of a script by its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None.
    Done,
    /// Of a function.
    Text(String),
    /// Of a timer, in milliseconds.
    Delay(i64),
    /// Of an assertion: the message of its failure.
    Failure(Option<String>),
    /// Of a sampler.
    Sample(Box<Sample>),
}

/// A request after its pre-processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedRequest {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Body and its type.
    pub(crate) body: Option<(Vec<u8>, String)>,
}

/// A reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) variables: Vec<(String, Option<String>)>,
    pub(crate) properties: Vec<(String, Option<String>)>,
    pub(crate) flow: Flow,
    pub(crate) outcome: Outcome,
    /// The previous sample, if the script has changed it.
    pub(crate) previous: Option<Box<Sample>>,
    pub(crate) request: Option<Box<ChangedRequest>>,
}

/// Writes a frame.
#[derive(Debug)]
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn large(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn small(&mut self, number: impl Into<u8>) {
        self.0.push(number.into());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.number(u32::MAX),
        }
    }

    fn pairs<'p>(&mut self, pairs: impl ExactSizeIterator<Item = (&'p str, Option<&'p str>)>) {
        self.number(pairs.len() as u32);
        for (name, value) in pairs {
            self.text(name);
            self.optional(value);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        for text in [&sample.label, &sample.code, &sample.message] {
            self.text(text);
        }
        self.small(sample.success);
        self.text(&sample.response_headers);
        self.text(&sample.request_headers);
        self.bytes(&sample.body);
        self.text(&sample.content_type);
        self.optional(sample.url.as_deref());
        self.text(&sample.data);
        self.large(sample.elapsed);
        self.text(&sample.method);
        for number in [sample.latency, sample.connect, sample.received, sample.sent] {
            self.large(number);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// The frame that starts the helper: JMeter's folder, the plan, the properties.
pub(super) fn start(home: &str, plan: &str, properties: &[(String, String)]) -> Vec<u8> {
    let mut out = Writer::new(4);
    out.text(home);
    out.text(plan);
    out.pairs(properties.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))));
    out.finish()
}

/// The frame that defines an element.
pub(super) fn define(number: u32, element: &ScriptElement) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.number(number);
    out.small(element.role as u8);
    out.text(&element.class);
    out.text(&element.name);
    let pair = |(name, value): &'_ (String, String)| (name.clone(), value.clone());
    let properties: Vec<(String, String)> = element.properties.iter().map(pair).collect();
    out.pairs(properties.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))));
    if element.role == ScriptRole::HttpSampler {
        out.number(element.arguments.len() as u32);
        element.arguments.iter().flatten().for_each(|text| out.text(text));
        let headers = element.headers.iter();
        out.pairs(headers.map(|(name, value)| (name.as_str(), Some(value.as_str()))));
    }
    out.finish()
}

/// The frame that forgets a user.
pub(super) fn forget(user: u32) -> Vec<u8> {
    let mut out = Writer::new(3);
    out.number(user);
    out.finish()
}

impl Call<'_> {
    /// The frame of the call.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut out = Writer::new(2);
        out.large(id);
        out.number(self.user);
        out.number(self.script);
        out.number(self.sampler.unwrap_or(u32::MAX));
        out.small(self.is_fresh);
        out.small(self.describes);
        out.text(self.thread.0);
        out.number(self.thread.1);
        out.text(self.thread.2);
        out.number(u32::try_from(self.iteration).unwrap_or(0));
        for pairs in [self.variables, self.properties] {
            out.pairs(pairs.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
        }
        for sample in [self.previous, self.parent] {
            out.small(sample.is_some());
            if let Some(sample) = sample {
                out.sample(sample);
            }
        }
        out.finish()
    }
}

/// Reads a frame; `None` at its end.
struct Reader<'f>(&'f [u8]);

impl<'f> Reader<'f> {
    fn take(&mut self, length: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn large(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A number that is not negative.
    fn count(&mut self) -> Option<u64> {
        Some(u64::try_from(self.large()? as i64).unwrap_or(0))
    }

    fn small(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// Bytes, which may be missing.
    fn bytes(&mut self) -> Option<Option<&'f [u8]>> {
        match self.number()? {
            u32::MAX => Some(None),
            length => self.take(length as usize).map(Some),
        }
    }

    fn optional(&mut self) -> Option<Option<String>> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(self.bytes()?.map(text))
    }

    fn text(&mut self) -> Option<String> {
        Some(self.optional()?.unwrap_or_default())
    }

    fn pairs(&mut self) -> Option<Vec<(String, Option<String>)>> {
        let count = self.number()?;
        (0..count).map(|_| Some((self.text()?, self.optional()?))).collect()
    }

    fn sample(&mut self) -> Option<Box<Sample>> {
        Some(Box::new(Sample {
            label: self.text()?,
            code: self.text()?,
            message: self.text()?,
            success: self.small()? == 1,
            ignored: self.small()? == 1,
            response_headers: self.text()?,
            request_headers: self.text()?,
            body: self.bytes()?.unwrap_or_default().to_vec(),
            content_type: self.text()?,
            url: self.optional()?,
            data: self.text()?,
            method: String::new(),
            elapsed: self.count()?,
            latency: self.count()?,
            connect: self.count()?,
            received: self.count()?,
            sent: self.count()?,
        }))
    }

    fn request(&mut self) -> Option<Box<ChangedRequest>> {
        let (method, url) = (self.text()?, self.text()?);
        let count = self.number()?;
        let headers: Option<_> = (0..count).map(|_| Some((self.text()?, self.text()?))).collect();
        let (headers, body) = (headers?, self.bytes()?);
        let content_type = self.text()?;
        let body = body.map(|body| (body.to_vec(), content_type));
        Some(Box::new(ChangedRequest { method, url, headers, body }))
    }
}

/// The call that a frame replies to.
pub(super) fn call_of(frame: &[u8]) -> Option<u64> {
    Reader(frame).large()
}

/// Reads a reply.
///
/// # Errors
/// The helper's error, or the frame is invalid.
pub(super) fn reply(frame: &[u8]) -> Result<Reply, Cow<'static, str>> {
    let mut read = Reader(frame.get(8..).unwrap_or_default());
    match read.small() {
        Some(1) => Err(read.text().unwrap_or_default().into()),
        Some(_) => complete(read).ok_or(Cow::Borrowed("a reply is invalid")),
        None => Err(Cow::Borrowed("a reply is empty")),
    }
}

fn complete(mut read: Reader<'_>) -> Option<Reply> {
    let (variables, properties) = (read.pairs()?, read.pairs()?);
    let flow = match read.small()? {
        0 => Flow::Next,
        1 => Flow::NextIteration,
        2 => Flow::StopUser,
        3 => Flow::StopRun,
        _ => Flow::StopNow,
    };
    let outcome = match read.small()? {
        0 => Outcome::Done,
        1 => Outcome::Text(read.text()?),
        2 => Outcome::Delay(read.large()? as i64),
        3 => {
            let failed = read.small()? == 1;
            let message = read.text()?;
            Outcome::Failure(failed.then_some(message))
        }
        _ => Outcome::Sample(read.sample()?),
    };
    let previous = if read.small()? == 1 { Some(read.sample()?) } else { None };
    let request = if read.small()? == 1 { Some(read.request()?) } else { None };
    Some(Reply { variables, properties, flow, outcome, previous, request })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_broken_ones_are_errors() {
        let mut out = Writer(Vec::new());
        out.large(7);
        out.small(0);
        out.pairs([("a", Some("1")), ("b", None)].into_iter());
        out.pairs([].into_iter());
        out.small(2);
        out.small(3);
        out.small(1);
        out.text("no");
        out.small(0);
        out.small(0);
        let frame = out.0;
        assert_eq!(call_of(&frame), Some(7));
        let read = reply(&frame).expect("valid");
        assert_eq!(read.flow, Flow::StopUser);
        assert_eq!(read.outcome, Outcome::Failure(Some("no".to_owned())));
        assert_eq!(read.variables[1], ("b".to_owned(), None));
        for length in 0..frame.len() {
            assert!(reply(&frame[..length]).is_err(), "{length} bytes");
        }
        let mut wrong = frame;
        wrong[9..13].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(reply(&wrong).is_err(), "more pairs than bytes");
    }
}
