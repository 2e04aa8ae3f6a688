//! Mapped files, and recovery from faults in them.
//!
//! A store to a mapped file raises `SIGBUS` if the system cannot provide the page: the file was
//! truncated, the disk fails under a page that is not in memory, or the file system needs a block
//! for its own metadata. The handler maps an empty page there, marks the mapping as faulted and
//! continues. The lane checks the mark before it reports a record as written, and writes the record
//! to another segment. The handler does not cover errors while the system writes pages back later:
//! they become wrong checksums when the pages are read from the disk (or, with durability `disk`,
//! an error of the sync). A `SIGBUS` from elsewhere goes to the previous handler.
#![expect(
    unsafe_code,
    reason = "mapping files, and the signal that comes with it, have no safe interface"
)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void};

/// Most mappings at a time.
const MAPPINGS: usize = 8192;
/// Value of `Slot::start` while the slot is being filled in.
const CLAIMED: usize = 1;

/// Range of a mapping, for the signal handler, which may neither lock nor allocate.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    faulted: AtomicBool,
}

static SLOTS: [Slot; MAPPINGS] = [const {
    Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faulted: AtomicBool::new(false) }
}; MAPPINGS];
static PAGE: AtomicUsize = AtomicUsize::new(4096);
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A file mapped for writing. Nothing else in this process maps the same part of it: readers use
/// `pread`, so that a slice of it is never aliased.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
    slot: &'static Slot,
}

// SAFETY: the memory belongs to the mapping alone, whichever thread has it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file and brings all pages into memory, so that stores do not fault.
    /// The file must keep this length.
    pub(crate) fn new(file: &File, length: usize) -> io::Result<Self> {
        guard()?;
        // SAFETY: a new mapping at a place that the system chooses touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let Some(slot) = claim(start.as_ptr() as usize, length) else {
            // SAFETY: mapped above, and nothing else refers to it.
            unsafe { libc::munmap(start.as_ptr().cast(), length) };
            return Err(io::Error::other("too many mappings"));
        };
        let mapping = Self { start, length, slot };
        // SAFETY: the range is the mapping's own; the advice gives an error instead of a signal.
        let populated =
            unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_POPULATE_WRITE) };
        if populated != 0 {
            let error = io::Error::last_os_error();
            // Linux before 5.14 does not know the advice; pages are then loaded on demand.
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error);
            }
        }
        Ok(mapping)
    }

    /// The mapped bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: start and length are those of a mapping that lives as long as `self` and that
        // this process accesses only through it. After a fault inside, an empty page is there.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Number of bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Whether a page could not be provided: stores since then may be lost.
    pub(crate) fn faulted(&self) -> bool {
        self.slot.faulted.load(Ordering::Acquire)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        self.slot.start.store(0, Ordering::Release);
    }
}

fn claim(start: usize, length: usize) -> Option<&'static Slot> {
    let free = |slot: &&Slot| {
        slot.start.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let slot = SLOTS.iter().find(free)?;
    slot.faulted.store(false, Ordering::Relaxed);
    slot.end.store(start + length, Ordering::Relaxed);
    slot.start.store(start, Ordering::Release);
    Some(slot)
}

/// Installs the handler, once per process.
fn guard() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: queries a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros is a valid `sigaction`; the old action is read before the new one is
        // set, so that the handler finds it; the handler is async-signal-safe.
        unsafe {
            libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr());
            BEFORE.get_or_init(|| before.assume_init());
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            if libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
            }
        }
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid description of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Positive codes come from the kernel; any process may send the others.
    let slot = SLOTS.iter().find(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        code > 0 && start > CLAIMED && (start..slot.end.load(Ordering::Relaxed)).contains(&address)
    });
    if let Some(slot) = slot {
        slot.faulted.store(true, Ordering::Release);
        let page = PAGE.load(Ordering::Relaxed);
        // SAFETY: the page lies inside a mapping of this module, whose owner is the thread that
        // faulted; `errno` belongs to the interrupted code and is restored.
        let mapped = unsafe {
            let errno = *libc::__errno_location();
            let mapped = libc::mmap(
                (address & !(page - 1)) as *mut c_void,
                page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            *libc::__errno_location() = errno;
            mapped
        };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    hand_on(signal, info, context);
}

/// Calls the previous handler of the signal.
fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        // SAFETY: restores the default action, which the same fault meets again on return.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
        // SAFETY: the flag says which of the two kinds of function it is.
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        },
        // SAFETY: as above.
        handler => unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_marks_the_mapping_and_ends_nothing() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        let mut mapping = Mapping::new(&file, 3 * 4096).unwrap();
        mapping.bytes()[5000] = 1;
        assert!(!mapping.faulted());
        file.set_len(4096).unwrap();
        mapping.bytes()[5000] = 1;
        assert!(mapping.faulted());
        mapping.bytes()[9000] = 1;
        assert_eq!((mapping.bytes()[5000], mapping.bytes()[9000]), (1, 1));
        drop(mapping);
        assert!(!Mapping::new(&file, 4096).unwrap().faulted(), "a slot is clean when used again");
    }
}
