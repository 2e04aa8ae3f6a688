//! Header fields of one message.

mod known;

pub use known::Known;
use std::fmt;

/// Header fields in their order, in one reusable buffer.
///
/// Field names keep their case; lookups ignore it. Values are bytes without surrounding white space
/// (RFC 9110 section 5.5: anything but CR, LF, NUL and other controls).
#[derive(Clone, Default)]
pub struct Headers {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// A bit for every known name that may be present; if a bit is not set, the field is absent.
    known: u64,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    known: Known,
    name: (u32, u32),
    value: (u32, u32),
}

impl Headers {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all fields, keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.known = 0;
    }

    /// Whether a field with this known name may be present. `false` is certain, and free of cost.
    #[inline]
    pub fn may_have(&self, name: Known) -> bool {
        self.known & name.bit() != 0
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Appends a field. Name and value must be valid: they are not checked.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.append(Known::of(name.as_bytes()), name, value);
    }

    /// Appends a field with a known name, which saves recognising it. Not for [`Known::Other`],
    /// which has no name.
    pub fn push_known(&mut self, name: Known, value: &[u8]) {
        self.append(name, name.name(), value);
    }

    /// Appends a field with a known name; `write` appends its value, which must be valid: it is not
    /// checked.
    pub fn push_with(&mut self, name: Known, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        let length = name.name().len();
        self.text.extend_from_slice(name.name().as_bytes());
        self.text.extend_from_slice(b": ");
        write(&mut self.text);
        let end = self.text.len() - start;
        self.text.extend_from_slice(b"\r\n");
        self.push_at(name, start, length, (length + 2, end));
    }

    fn append(&mut self, known: Known, name: &str, value: &[u8]) {
        self.text.reserve(name.len() + value.len() + 4);
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        // As on the wire, so that neighbouring fields can be copied at once.
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        self.text.extend_from_slice(b"\r\n");
        let value_start = name.len() + 2;
        self.push_at(known, start, name.len(), (value_start, value_start + value.len()));
    }

    /// Replaces all fields of this name by one.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.push(name, value);
    }

    /// Removes all fields of this name.
    pub fn remove(&mut self, name: &str) {
        let known = Known::of(name.as_bytes());
        if !self.may_have(known) {
            return;
        }
        let text = &self.text;
        self.fields.retain(|f| !f.is(text, known, name));
        if known != Known::Other {
            self.known &= !known.bit();
        }
    }

    /// Keeps the fields for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(Known, &str, &[u8]) -> bool) {
        let text = &self.text;
        self.fields.retain(|f| keep(f.known, f.name(text), f.value(text)));
    }

    /// Value of the first field of this name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let known = Known::of(name.as_bytes());
        self.fields.iter().find(|f| f.is(&self.text, known, name)).map(|f| f.value(&self.text))
    }

    /// Values of all fields of this name, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let known = Known::of(name.as_bytes());
        self.fields
            .iter()
            .filter(move |f| f.is(&self.text, known, name))
            .map(|f| f.value(&self.text))
    }

    /// Value of the first field with this known name. For hot paths: it compares bytes only.
    #[inline]
    pub fn known(&self, name: Known) -> Option<&[u8]> {
        if self.may_have(name) { self.known_all(name).next() } else { None }
    }

    /// Values of all fields with this known name, in order.
    pub fn known_all(&self, name: Known) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter(move |f| f.known == name).map(|f| f.value(&self.text))
    }

    /// Known name and original name of each field, as bytes: cheaper than [`Headers::iter`].
    pub fn names(&self) -> impl Iterator<Item = (Known, &[u8])> {
        self.fields.iter().map(|f| (f.known, f.name_bytes(&self.text)))
    }

    /// Known name, original name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (Known, &str, &[u8])> {
        self.fields.iter().map(|f| (f.known, f.name(&self.text), f.value(&self.text)))
    }

    /// Appends all fields as on the wire; neighbours in the buffer are copied at once.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        const LINE_END: u32 = 2;
        let mut fields = self.fields.iter().peekable();
        while let Some(first) = fields.next() {
            let mut end = first.value.1;
            while let Some(next) = fields.next_if(|next| next.name.0 == end + LINE_END) {
                end = next.value.1;
            }
            out.extend_from_slice(&self.text[first.name.0 as usize..end as usize]);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Keeps the fields for whose known name `keep` returns true.
    pub fn retain_known(&mut self, mut keep: impl FnMut(Known) -> bool) {
        let mut known = 0;
        self.fields.retain(|f| {
            let kept = keep(f.known);
            known |= if kept { f.known.bit() } else { 0 };
            kept
        });
        self.known = known;
    }

    /// Adds a field of a line that starts at `offset` of the text: the length of its name, and
    /// start and end of its value, relative to the line.
    #[inline]
    pub(crate) fn push_at(
        &mut self,
        known: Known,
        offset: usize,
        name: usize,
        value: (usize, usize),
    ) {
        let at = |place: usize| (offset + place) as u32;
        self.known |= known.bit();
        self.fields.push(Field {
            known,
            name: (at(0), at(name)),
            value: (at(value.0), at(value.1)),
        });
    }

    /// Takes the text of a head whose fields were added with [`Headers::push_at`].
    pub(crate) fn take_text(&mut self, head: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(head);
    }
}

/// Names only: a value may be secret.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(_, name, _)| name)).finish()
    }
}

impl Field {
    fn name<'a>(&self, text: &'a [u8]) -> &'a str {
        // Names are tokens (ASCII) by the time they are stored.
        std::str::from_utf8(self.name_bytes(text)).unwrap_or("")
    }

    fn name_bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.name.0 as usize..self.name.1 as usize]
    }

    fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.value.0 as usize..self.value.1 as usize]
    }

    fn is(&self, text: &[u8], known: Known, name: &str) -> bool {
        match known {
            Known::Other => {
                self.known == Known::Other
                    && self.name_bytes(text).eq_ignore_ascii_case(name.as_bytes())
            }
            known => self.known == known,
        }
    }
}

#[cfg(test)]
mod tests;
