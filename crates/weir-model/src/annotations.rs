//! Annotations of a transaction by a script.

/// Most keys, properties and log lines of a transaction, for each kind.
const MAX_ANNOTATIONS: usize = 64;
/// Longest name in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Longest text in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// Annotations of a transaction by a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Business keys.
    pub keys: Vec<(String, String)>,
    /// Properties; a state is a property of the name `state`.
    pub properties: Vec<(String, String)>,
    /// Log lines.
    pub logs: Vec<String>,
}

/// Kind of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// The state of the business process.
    State,
    /// A property.
    Property,
    /// A business key.
    Key,
    /// A log line.
    Log,
}

impl Annotations {
    /// No annotations.
    pub const EMPTY: Self = Self { keys: Vec::new(), properties: Vec::new(), logs: Vec::new() };

    /// Adds an annotation, its name truncated to 256 bytes and its text to 4 KiB; false if there are 64
    /// of its list already.
    pub fn add(&mut self, kind: Annotation, name: &str, text: &str) -> bool {
        let cut = |text: &str, bytes| text[..text.floor_char_boundary(bytes)].to_owned();
        let text = cut(text, MAX_TEXT_BYTES);
        match kind {
            Annotation::State => push(&mut self.properties, ("state".to_owned(), text)),
            Annotation::Property => push(&mut self.properties, (cut(name, MAX_NAME_BYTES), text)),
            Annotation::Key => push(&mut self.keys, (cut(name, MAX_NAME_BYTES), text)),
            Annotation::Log => push(&mut self.logs, text),
        }
    }
}

/// Adds an item to a list; false if the list is full.
fn push<T>(list: &mut Vec<T>, item: T) -> bool {
    let fits = list.len() < MAX_ANNOTATIONS;
    if fits {
        list.push(item);
    }
    fits
}
