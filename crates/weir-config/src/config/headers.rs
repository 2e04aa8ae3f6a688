//! Header edits.

use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Header edits: first `remove`, then `set`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HeaderEdits is "header edits" {
        /// Headers to set; each replaces those of the same name.
        // Names in lower case, and values.
        pub set: Vec<(String, String)> = headers(),
        /// Headers to remove.
        // Names in lower case.
        pub remove: Vec<String> = names(Kind::OneOrMany(&Kind::Format(format::EDITABLE_HEADER))),
    },
    misspellings: &[("add", "write `set`: a header of the same name is replaced")],
}

impl HeaderEdits {
    /// Whether there are no edits.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// These edits, then the inner ones, as one.
    pub(crate) fn then(&self, inner: Self) -> Self {
        let mut set = self.set.clone();
        set.retain(|(name, _)| {
            !inner.set.iter().any(|(n, _)| n == name) && !inner.remove.contains(name)
        });
        set.extend(inner.set);
        let mut remove = self.remove.clone();
        for name in inner.remove {
            if !remove.contains(&name) {
                remove.push(name);
            }
        }
        Self { set, remove }
    }
}

settings! {
    /// Transformations for every route of the API.
    pub(crate) struct ApiEdits is "the transformations of an API" {
        /// Header edits.
        pub(crate) headers: HeaderEdits = section(),
    }
}
