//! Figures that were found recently, for requests that are equal.
//!
//! Consoles repeat their queries: ten that show the same page would count the same millions of
//! transactions ten times. Equal requests that arrive together share one query, and its figures are
//! reused while they are recent in relation to what they cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use weir_tracker::{Counts, Difference, Profile};

/// Maximum number of queries with recent figures, for each kind of figures.
const MAX_ENTRIES: usize = 64;
/// Figures are reused for this many times as long as their query took: a query that is repeated
/// all the time takes a fiftieth of a core.
const AGE_FACTOR: u32 = 50;
/// Maximum age of reused figures.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Recent figures of all kinds.
#[derive(Default)]
pub(in crate::api) struct RecentFigures {
    pub(super) counts: Recent<Counts>,
    pub(super) differences: Recent<Difference>,
    pub(super) profiles: Recent<Profile>,
}

impl RecentFigures {
    /// Forgets all figures: a caller has changed transactions, and expects to see the change.
    pub(in crate::api) fn clear(&self) {
        self.counts.clear();
        self.differences.clear();
        self.profiles.clear();
    }
}

/// Recent figures of one kind, by everything that they depend on.
pub(in crate::api) struct Recent<T>(Mutex<HashMap<String, Arc<Entry<T>>>>);

/// The figures of a query, or none while it runs or after it failed.
struct Entry<T>(OnceCell<Found<T>>);

struct Found<T> {
    figures: T,
    /// The figures are as of this time.
    started: Instant,
    took: Duration,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<T> Entry<T> {
    /// Whether a request shares its query or reuses its figures.
    fn is_recent(&self) -> bool {
        self.0.get().is_none_or(|found| {
            found.started.elapsed() <= found.took.saturating_mul(AGE_FACTOR).min(MAX_AGE)
        })
    }
}

impl<T: Clone> Recent<T> {
    /// The figures for `key`: recent ones, or those that `find` finds. An error is returned to the
    /// request whose query failed; the next one tries again.
    pub(super) async fn get_or_find<E>(
        &self,
        key: String,
        find: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let entry = self.entry(key);
        let found = entry.0.get_or_try_init(async || {
            let started = Instant::now();
            let figures = find.await?;
            Ok(Found { figures, started, took: started.elapsed() })
        });
        Ok(found.await?.figures.clone())
    }

    fn entry(&self, key: String) -> Arc<Entry<T>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(&key).is_none_or(|entry| !entry.is_recent()) {
            entries.retain(|_, entry| entry.is_recent());
            if entries.len() >= MAX_ENTRIES {
                // Requests that wait for these queries keep them.
                entries.clear();
            }
            entries.insert(key.clone(), Arc::new(Entry(OnceCell::new())));
        }
        Arc::clone(&entries[&key])
    }
}

impl<T> Recent<T> {
    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_ENTRIES, Recent};
    use std::cell::Cell;
    use std::time::Duration;

    const QUERY: Duration = Duration::from_millis(20);

    /// Requests figures, whose query takes [`QUERY`]; they are the number of queries so far.
    async fn request(recent: &Recent<u32>, key: &str, queries: &Cell<u32>) -> Result<u32, ()> {
        let find = async {
            queries.set(queries.get() + 1);
            tokio::time::sleep(QUERY).await;
            Ok(queries.get())
        };
        recent.get_or_find(key.to_owned(), find).await
    }

    #[tokio::test]
    async fn equal_requests_share_a_query_and_others_do_not() {
        let (recent, queries) = (Recent::default(), Cell::new(0));
        let both = tokio::join!(request(&recent, "a", &queries), request(&recent, "a", &queries));
        assert_eq!(both, (Ok(1), Ok(1)));
        assert_eq!(request(&recent, "a", &queries).await, Ok(1), "reused");
        assert_eq!(request(&recent, "b", &queries).await, Ok(2));
        recent.clear();
        assert_eq!(request(&recent, "a", &queries).await, Ok(3));
    }

    #[tokio::test]
    async fn figures_are_reused_for_a_multiple_of_what_they_cost() {
        let (recent, queries) = (Recent::<u32>::default(), Cell::new(0));
        let free = async || {
            let find = async { Ok::<_, ()>(queries.replace(queries.get() + 1)) };
            recent.get_or_find("free".to_owned(), find).await
        };
        assert_eq!(free().await, Ok(0));
        tokio::time::sleep(QUERY).await;
        assert_eq!(free().await, Ok(1), "a query without cost is repeated");
    }

    #[tokio::test]
    async fn errors_are_not_kept_and_entries_are_bounded() {
        let (recent, queries) = (Recent::default(), Cell::new(0));
        assert_eq!(recent.get_or_find("a".to_owned(), async { Err("no") }).await, Err("no"));
        assert_eq!(request(&recent, "a", &queries).await, Ok(1));
        for number in 0..2 * MAX_ENTRIES {
            recent.entry(number.to_string());
        }
        assert!(recent.0.lock().unwrap().len() <= MAX_ENTRIES);
    }
}
