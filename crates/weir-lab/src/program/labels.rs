//! Labels of samples: those of the program, and those that texts with variables give during a run.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Labels that requests get during a run; further ones share [`OTHER_LABELS`].
const MAX_RUNTIME_LABELS: u32 = 512;
/// The same for transactions.
const MAX_RUNTIME_TRANSACTIONS: u32 = 128;

/// Label of all samples beyond the largest number of labels.
pub const OTHER_LABELS: &str = "(other labels)";

/// Index into [`Labels`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// The labels of a program. Clones share the labels of a run.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Labels that are known before the run, and whether each is that of a transaction. A request and the transaction
    /// around it may have the same name.
    fixed: Vec<(String, bool)>,
    transactions: Option<Arc<Range>>,
    requests: Option<Arc<Range>>,
}

/// Labels that are found during a run. They follow each other from an index.
#[derive(Debug)]
struct Range {
    max: u32,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    names: Vec<String>,
    by_name: HashMap<String, u32>,
}

impl Labels {
    /// The label of a request or a transaction of this name; added if missing. Only before the run.
    pub(super) fn fixed(&mut self, name: &str, transaction: bool) -> Label {
        let at = self.position(name, transaction).unwrap_or_else(|| {
            self.fixed.push((name.to_owned(), transaction));
            self.fixed.len() - 1
        });
        Label(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn position(&self, name: &str, transaction: bool) -> Option<usize> {
        self.fixed.iter().position(|(known, is)| known == name && *is == transaction)
    }

    /// Allows labels to be added during the run: of transactions, or of requests.
    pub fn allow_runtime(&mut self, transactions: bool) {
        let range = |max| Some(Arc::new(Range { max, found: Mutex::default() }));
        match transactions {
            true if self.transactions.is_none() => {
                self.transactions = range(MAX_RUNTIME_TRANSACTIONS);
            }
            false if self.requests.is_none() => self.requests = range(MAX_RUNTIME_LABELS),
            _ => {}
        }
    }

    /// The label of a name that was evaluated during the run.
    pub(crate) fn intern(&self, name: &str, transaction: bool) -> Label {
        // Fixed labels of the same name are the same label, except that transactions are excluded
        // from totals.
        let first = self.first(transaction);
        let range = if transaction { &self.transactions } else { &self.requests };
        if !transaction && let Some(at) = self.position(name, false) {
            return Label(u32::try_from(at).unwrap_or(u32::MAX));
        }
        Label(first + range.as_ref().map_or(0, |range| range.intern(name)))
    }

    /// First index of the labels of a run.
    fn first(&self, transaction: bool) -> u32 {
        let fixed = u32::try_from(self.fixed.len()).unwrap_or(u32::MAX);
        match (&self.transactions, transaction) {
            (Some(range), false) => fixed.saturating_add(range.max),
            _ => fixed,
        }
    }

    /// All labels that transactions may get during the run.
    pub(super) fn of_transactions(&self) -> impl Iterator<Item = Label> {
        let max = self.transactions.as_ref().map_or(0, |range| range.max);
        let first = self.first(true);
        (first..first + max).map(Label)
    }

    /// Number of labels that are known before the run.
    pub fn len(&self) -> usize {
        self.fixed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty()
    }

    /// All names up to now, by index. A transaction with the name of a request has a suffix: results have both.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let found = self.requests.as_ref().map_or_else(Vec::new, |range| range.names());
        let fixed = self.fixed.iter().filter(|(_, transaction)| !transaction);
        let requests: HashSet<&str> =
            fixed.map(|(name, _)| name).chain(&found).map(String::as_str).collect();
        let of_transaction = |name: &String| match requests.contains(name.as_str()) {
            true => format!("{name} (transaction)"),
            false => name.clone(),
        };
        let of_fixed = |(name, transaction): &(String, bool)| match transaction {
            true => of_transaction(name),
            false => name.clone(),
        };
        let mut names: Vec<String> = self.fixed.iter().map(of_fixed).collect();
        if let Some(range) = &self.transactions {
            let all: Vec<String> = range.names().iter().map(of_transaction).collect();
            let missing = (range.max as usize).saturating_sub(all.len());
            names.extend(all);
            // The labels of requests have their indexes from the start.
            if self.requests.is_some() {
                names.extend(std::iter::repeat_n(String::new(), missing));
            }
        }
        names.extend(found);
        names
    }

    /// Whether a request or a transaction has this name, or may get it during the run.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        let at_runtime = self.transactions.is_some() || self.requests.is_some();
        at_runtime || self.names().iter().any(|known| known == name)
    }

    /// The name of a label that is known before the run.
    pub(crate) fn known(&self, label: Label) -> Option<&str> {
        self.fixed.get(label.0 as usize).map(|(name, _)| name.as_str())
    }

    /// Calls `with` with the name of a label; an unknown one is empty.
    pub fn name<R>(&self, label: Label, with: impl FnOnce(&str) -> R) -> R {
        if let Some(name) = self.known(label) {
            return with(name);
        }
        let of_requests = self.first(false);
        let (range, first) = match (&self.transactions, &self.requests) {
            (_, Some(range)) if label.0 >= of_requests => (range, of_requests),
            (Some(range), _) => (range, self.first(true)),
            _ => return with(""),
        };
        let found = range.found.lock().unwrap_or_else(PoisonError::into_inner);
        let at = label.0.saturating_sub(first) as usize;
        with(found.names.get(at).map_or("", String::as_str))
    }
}

impl<N: Into<String>> FromIterator<N> for Labels {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let fixed = names.into_iter().map(|name| (name.into(), false));
        Self { fixed: fixed.collect(), ..Self::default() }
    }
}

impl Range {
    /// The index of a name within this range. The last index is the one of all further names.
    fn intern(&self, name: &str) -> u32 {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.by_name.get(name) {
            return *known;
        }
        let last = self.max - 1;
        let next = u32::try_from(found.names.len()).unwrap_or(last);
        if next >= last {
            if next == last {
                found.names.push(OTHER_LABELS.to_owned());
            }
            return last;
        }
        found.names.push(name.to_owned());
        found.by_name.insert(name.to_owned(), next);
        next
    }

    fn names(&self) -> Vec<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).names.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_run_are_bounded_and_the_rest_is_visible() {
        let mut labels = Labels::default();
        assert_eq!(labels.fixed("a", false), Label(0));
        labels.allow_runtime(true);
        labels.allow_runtime(false);
        let clone = labels.clone();
        assert_eq!(labels.intern("a", false), Label(0), "a known one");
        let transaction = labels.intern("t", true);
        assert_eq!(transaction, Label(1));
        for number in 0..2 * MAX_RUNTIME_LABELS {
            labels.intern(&number.to_string(), false);
        }
        let last = labels.intern("beyond", false);
        assert_eq!(last.0, MAX_RUNTIME_TRANSACTIONS + MAX_RUNTIME_LABELS);
        clone.name(last, |name| assert_eq!(name, OTHER_LABELS));
        clone.name(transaction, |name| assert_eq!(name, "t"));
        let names = clone.names();
        assert_eq!(names[last.0 as usize], OTHER_LABELS);
        assert_eq!(names[labels.intern("7", false).0 as usize], "7");
        assert_eq!(names.len() as u32, last.0 + 1);
        assert_eq!(labels.of_transactions().last(), Some(Label(MAX_RUNTIME_TRANSACTIONS)));
    }

    #[test]
    fn a_request_and_its_transaction_may_have_the_same_name() {
        let mut labels = Labels::default();
        let (request, transaction) = (labels.fixed("login", false), labels.fixed("login", true));
        assert_ne!(request, transaction);
        assert_eq!(labels.fixed("login", true), transaction);
        assert_eq!(labels.intern("login", false), request);
        assert_eq!(labels.names(), ["login", "login (transaction)"]);
        labels.name(transaction, |name| assert_eq!(name, "login"));
        labels.allow_runtime(true);
        labels.intern("login", true);
        assert_eq!(labels.names()[2], "login (transaction)");
    }
}
