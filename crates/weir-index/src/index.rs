//! The index as a whole: its folder, its pieces, what searches and the indexer share.
//!
//! `data/index/` has a folder for each day (UTC), named after the day on which its first
//! transaction was received, and in it the folders of [pieces](crate::piece). A partition is
//! dropped whole. Each piece says where it begins and ends in every lane of the journal; where one
//! does not end where the next begins, something was lost, and that stretch is read again. So any
//! part of the index can be deleted, and all of it.
//!
//! Pieces that were made without knowing what is a business key are provisional: whoever knows it
//! drops them when the index is opened, and indexes that stretch again. They never move the
//! checkpoint, so the journal still has it whole.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use weir_config::BusinessKeys;
use weir_journal::{Journal, Position, Transaction};

use crate::block::Depth;
use crate::clock::now_us;
use crate::error::Error;
use crate::file::Span;
use crate::indexer::{FOLLOWER, Indexer};
use crate::keys;
use crate::piece::{Build, OpenPiece, SealedPiece, make_folder};
use crate::query::Number;
use crate::resubmit::Ledger;

/// How the index is kept.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What is indexed.
    pub depth: Depth,
    /// The code of the stage whose duration is that of the whole transaction.
    pub whole_stage: u8,
    /// What is read out of each transaction as its business keys.
    pub keys: Arc<BusinessKeys>,
    /// Index when nothing else wants to run, unless it is more than a minute behind.
    pub in_idle_time: bool,
    /// Nobody knows what is a business key: what is indexed now is indexed again by whoever does.
    pub provisional: bool,
}

/// What the index has and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions that can be found by it.
    pub transactions: u64,
    /// Pieces on disk.
    pub pieces: u64,
    /// Transactions indexed since it was opened.
    pub indexed: u64,
    /// Transactions that are not indexed yet, those that are still open included.
    pub lag_records: u64,
    /// Microseconds since the last indexed transaction ended; 0 when nothing is left to index.
    pub lag_us: u64,
    /// Stretches that were lost and are being read again.
    pub missing: u64,
    /// Pieces found damaged since it was opened.
    pub damaged: u64,
    /// Transactions indexed without words or keys, since reading them panicked.
    pub skipped: u64,
    /// Times that [`Indexer::recover`] was called.
    pub restarts: u64,
}

/// A stretch of the journal that no piece covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: Vec<Position>,
    pub(crate) to: Vec<Position>,
}

/// What searches see.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) sealed: Vec<Arc<SealedPiece>>,
    pub(crate) open: OpenPiece,
    /// Where the open piece began, and where it has come to, in each lane.
    pub(crate) from: Vec<Position>,
    pub(crate) indexed: Vec<Position>,
    pub(crate) gaps: Vec<Gap>,
}

/// What searches and the indexer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) journal: Arc<Journal>,
    pub(crate) settings: Settings,
    state: RwLock<State>,
    /// Pieces that were found damaged and have to be made again.
    pub(crate) damaged: Mutex<HashSet<PathBuf>>,
    pub(crate) counts: Counts,
    /// What became of transactions, if that is known.
    ledger: OnceLock<Ledger>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) indexed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// When the transaction indexed last had ended; 0 when nothing is left.
    pub(crate) behind_since: AtomicU64,
    /// When the last search began; 0 before the first.
    searched: AtomicU64,
}

impl Counts {
    /// Notes that somebody searches.
    pub(crate) fn search(&self) {
        self.searched.store(now_us(), Ordering::Relaxed);
    }

    /// Whether somebody searched a moment ago, and may again.
    pub(crate) fn is_searched(&self) -> bool {
        let since = now_us().saturating_sub(self.searched.load(Ordering::Relaxed));
        since < SEARCHING.as_micros() as u64
    }
}

/// For so long after a search, another one is expected.
const SEARCHING: Duration = Duration::from_secs(5);

/// Searches the transactions of a journal.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
}

impl Index {
    /// Opens or makes the index in `data`, and gives what has to be driven to keep it up to date.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Journal`] if files fail. Damage is put right.
    pub fn open(
        data: &Path,
        journal: Arc<Journal>,
        settings: Settings,
    ) -> Result<(Self, Indexer), Error> {
        let folder = data.join("index");
        make_folder(&folder)?;
        let found = find(&folder, settings.provisional)?;
        let damaged = found.damaged;
        let (sealed, gaps, indexed) = chain(found.pieces, begins(&journal));
        let build = Build::new(settings.depth);
        let open = OpenPiece::new(settings.depth, build.seed());
        let state = State { sealed, open, from: indexed.clone(), indexed, gaps };
        let counts = Counts::default();
        // Nothing is known of the journal's end until it was read to there once.
        counts.behind_since.store(now_us(), Ordering::Relaxed);
        counts.damaged.store(damaged, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            folder,
            journal,
            settings,
            state: RwLock::new(state),
            damaged: Mutex::default(),
            counts,
            ledger: OnceLock::new(),
        });
        let next = found.next;
        let indexer = Indexer::new(Arc::clone(&shared), build, next)?;
        Ok((Self { shared }, indexer))
    }

    /// Nothing is indexed any more: the journal need keep nothing for it.
    ///
    /// # Errors
    /// [`Error::Journal`] if its checkpoint cannot be removed.
    pub fn forget(journal: &Journal) -> Result<(), Error> {
        journal.forget(FOLLOWER).map_err(Error::Journal)
    }

    /// Lets searches ask what became of transactions; once.
    pub fn ask(&self, ledger: Ledger) {
        // A second one would say the same.
        let _ = self.shared.ledger.set(ledger);
    }

    /// What it has and does; `now` in microseconds since 1970.
    #[must_use]
    pub fn statistics(&self, now: u64) -> Statistics {
        let counts = &self.shared.counts;
        let since = counts.behind_since.load(Ordering::Relaxed);
        // Reads files, so it comes before the lock. The checkpoint stands where the open piece began.
        let lags = match since {
            0 => Vec::new(),
            _ => self.shared.journal.lags().unwrap_or_default(),
        };
        let lag = lags.iter().find(|lag| lag.name == FOLLOWER).map_or(0, |lag| lag.records);
        let state = self.shared.read();
        let sealed: usize = state.sealed.iter().map(|piece| piece.head.rows).sum();
        Statistics {
            transactions: (sealed + state.open.columns.len()) as u64,
            lag_records: lag.saturating_sub(state.open.columns.len() as u64),
            pieces: state.sealed.len() as u64,
            indexed: counts.indexed.load(Ordering::Relaxed),
            lag_us: if since == 0 { 0 } else { now.saturating_sub(since) },
            missing: state.gaps.len() as u64,
            damaged: counts.damaged.load(Ordering::Relaxed),
            skipped: counts.skipped.load(Ordering::Relaxed),
            restarts: counts.restarts.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.get()
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the business keys that can be read out of a transaction; false if that panicked. What
    /// was recorded was sent by anybody, and must not end who reads it.
    pub(crate) fn read_keys(&self, transaction: &mut Transaction) -> bool {
        let keys = &self.settings.keys;
        catch_unwind(AssertUnwindSafe(|| keys::read(keys, transaction))).is_ok()
    }

    /// Notes a damaged piece, to be made again by the indexer.
    pub(crate) fn report(&self, piece: &SealedPiece) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.insert(piece.folder.clone()) {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the newest piece of the index in `data` has indexed; none if there is no piece.
#[must_use]
pub fn stored_depth(data: &Path) -> Option<Depth> {
    let days = folders(&data.join("index")).ok()?;
    let places = days.iter().filter_map(|day| folders(day).ok()).flatten();
    let number = |place: &PathBuf| place.file_name()?.to_str()?.parse::<u64>().ok();
    let newest = places.filter_map(|place| Some((number(&place)?, place))).max()?;
    SealedPiece::open(&newest.1).ok().map(|piece| piece.head.about.depth)
}

/// The pieces that there are.
struct Found {
    pieces: Vec<SealedPiece>,
    damaged: u64,
    /// The number of the next piece.
    next: u64,
}

/// Opens all pieces; what is damaged or unfinished is removed, and what is provisional unless that
/// is as good as it gets.
fn find(folder: &Path, provisional: bool) -> Result<Found, Error> {
    let mut found = Found { pieces: Vec::new(), damaged: 0, next: 1 };
    for partition in folders(folder)? {
        for place in folders(&partition)? {
            let number = place.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            let Some(number) = number else {
                // The folder of a piece that was never finished.
                fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                continue;
            };
            found.next = found.next.max(number + 1);
            match SealedPiece::open(&place) {
                Ok(piece) if piece.head.about.provisional && !provisional => {
                    fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                }
                Ok(piece) => found.pieces.push(piece),
                Err(error) if is_damage(&error) => {
                    found.damaged += 1;
                    fs::remove_dir_all(&place).map_err(Error::io(&place))?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Whether a piece has to be made again.
pub(crate) fn is_damage(error: &Error) -> bool {
    match error {
        Error::Damaged { .. } => true,
        Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        Error::Journal(_) | Error::Behind => false,
    }
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let entry = entry.map_err(Error::io(folder))?;
        if entry.file_type().map_err(Error::io(folder))?.is_dir() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

/// Where what the journal still has begins, in each lane.
pub(crate) fn begins(journal: &Journal) -> Vec<Position> {
    (0..journal.lanes()).map(|lane| journal.begin(lane)).collect()
}

/// Whether the journal has nothing left of a piece.
pub(crate) fn is_gone(piece: &SealedPiece, begins: &[Position]) -> bool {
    let spans = spans(piece, begins.len());
    spans.iter().zip(begins).all(|((from, to), begin)| from == to || to <= begin)
}

/// Puts pieces in the order of the journal, and finds what they leave out of what it still has.
fn chain(
    mut pieces: Vec<SealedPiece>,
    begins: Vec<Position>,
) -> (Vec<Arc<SealedPiece>>, Vec<Gap>, Vec<Position>) {
    let lanes = begins.len();
    // Pieces follow each other in every lane, so the sum of their beginnings orders them.
    pieces.sort_by_key(|piece| {
        piece.head.about.spans.iter().map(|(from, _)| u128::from(from.to_bits())).sum::<u128>()
    });
    let (mut sealed, mut gaps) = (Vec::new(), Vec::new());
    let mut reached = begins;
    for piece in pieces {
        let spans: Vec<Span> = spans(&piece, lanes);
        let from: Vec<_> = spans.iter().map(|(from, _)| *from).collect();
        if from.iter().zip(&reached).any(|(from, reached)| from > reached) {
            gaps.push(Gap { from: reached.clone(), to: from });
        }
        for (reached, (_, to)) in reached.iter_mut().zip(&spans) {
            *reached = (*reached).max(*to);
        }
        sealed.push(Arc::new(piece));
    }
    (sealed, gaps, reached)
}

/// Where a piece begins and ends in each of `lanes`; lanes it does not know did not exist.
fn spans(piece: &SealedPiece, lanes: usize) -> Vec<Span> {
    let mut spans = piece.head.about.spans.clone();
    spans.resize(lanes, (Position::START, Position::START));
    spans
}

/// The gap that a piece leaves behind.
pub(crate) fn gap_of(piece: &SealedPiece, lanes: usize) -> Gap {
    let (from, to) = spans(piece, lanes).into_iter().unzip();
    Gap { from, to }
}

/// Least and greatest time of a piece.
pub(crate) fn times(piece: &SealedPiece) -> (u64, u64) {
    piece.head.bounds(Number::Time).unwrap_or((0, u64::MAX))
}
