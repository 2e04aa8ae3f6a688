//! The kernel's side: operations, and the memory that belongs to the kernel until they complete.
//!
//! Everything unsafe of this crate is here. Its invariants:
//!
//! 1. An operation is in [`Kernel::entries`] from its submission until its only completion. Its entry owns
//!    what the kernel reads (the bytes of a send, which nobody else can see) and whatever keeps the
//!    descriptor open.
//! 2. A provided buffer belongs to the kernel, or to exactly one [`Received`], whose drop gives it back.
//! 3. Memory of operations and buffers is released only once no operation is left. A kernel that does not
//!    let go of one within [`END`] keeps all of it: the memory leaks.
//! 4. A ring is used by the thread that has created it (neither `Send` nor `Sync`).
#![expect(unsafe_code, reason = "the interface of io_uring is memory shared with the kernel")]

use io_uring::types::{BufRingEntry, Fd, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering, fence};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Operations that are submitted at a time; more are submitted in several calls.
const SUBMISSIONS: u32 = 256;
/// Completions that wait for this thread; the kernel keeps more of them elsewhere.
const COMPLETIONS: u32 = 4096;
/// Number of provided buffers, a power of two.
const BUFFERS: u16 = 256;
/// Length of a provided buffer in bytes. Longer messages are read by further calls.
pub(crate) const BUFFER_BYTES: usize = 4096;
/// The only group of provided buffers.
const GROUP: u16 = 0;
/// Of completions that belong to no operation.
const NO_OPERATION: u64 = u64::MAX;
/// How long the end of a ring waits for its operations.
const END: Duration = Duration::from_secs(2);
/// `IORING_RECVSEND_POLL_FIRST`: wait for bytes before the first attempt. There are none yet: what is there
/// after a receive is read by a call.
const POLL_FIRST: u16 = 1;
/// `IORING_ENTER_GETEVENTS`: complete what is complete, too.
const GET_EVENTS: u32 = 1;
/// Length of the longest page of any architecture: the ring of buffers begins at a page.
const PAGE: usize = 64 << 10;

/// What the kernel is to do with a socket.
#[derive(Debug)]
pub(crate) enum Order {
    /// Receive into a provided buffer.
    Receive,
    /// Wait until there is something to receive.
    Wait,
    /// Send what the socket takes at once.
    Send(Vec<u8>),
}

/// Names an operation, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A completed operation.
#[derive(Debug)]
pub(crate) struct Completed<T> {
    pub(crate) owner: T,
    pub(crate) outcome: Outcome,
}

/// How an operation has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The bytes, none at the end of the stream; `more`: further ones were there at that time.
    Received { bytes: Result<Option<Received>, Errno>, more: bool },
    /// There is something to receive: bytes, the end of the stream or an error.
    Readable(Result<(), Errno>),
    /// The memory of the bytes, and how many of them were sent.
    Sent { memory: Vec<u8>, count: Result<usize, Errno> },
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    /// `None`: free.
    operation: Option<(T, Order)>,
}

/// A ring of one thread. `T` keeps the descriptor of its socket open, and says whose operation it is.
pub(crate) struct Kernel<T: AsFd> {
    ring: ManuallyDrop<IoUring>,
    /// Counts events; its value does not matter.
    event: OwnedFd,
    buffers: ManuallyDrop<Rc<Buffers>>,
    entries: ManuallyDrop<Vec<Entry<T>>>,
    free: Vec<u32>,
    /// Number of started operations that end within the call that submits them, and end no sleep.
    ending: u32,
    #[cfg(test)]
    disorder: Option<crate::tests::Disorder>,
}

impl<T: AsFd> Kernel<T> {
    /// A ring, if this kernel has what it needs (Linux 6.1) and this process may use it.
    pub(crate) fn new() -> io::Result<Self> {
        let ring: IoUring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build(SUBMISSIONS)?;
        // Not the descriptor of the ring itself: that becomes readable by `enter` only, because completions
        // are deferred until then.
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let buffers = Rc::new(Buffers::new());
        // SAFETY: the ring of buffers is aligned to a page, has this number of entries, and is released
        // after the ring that uses it.
        unsafe {
            let address = buffers.ring.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)?;
        }
        (0..BUFFERS).for_each(|id| buffers.add(id));
        // For receives that the kernel does not see an end of, such as those of urgent data. Without the bound
        // each has a thread.
        let _ = ring.submitter().register_iowq_max_workers(&mut [1, 1]);
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            event,
            buffers: ManuallyDrop::new(buffers),
            entries: ManuallyDrop::new(Vec::new()),
            free: Vec::new(),
            ending: 0,
            #[cfg(test)]
            disorder: None,
        })
    }

    /// Whether operations complete: a process may create rings and not be permitted to use them.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build().user_data(NO_OPERATION));
        self.submit(1, GET_EVENTS, Some(END)).map(drop)
    }

    /// Has the runtime of this thread watch for what is to be done by [`Kernel::enter`]: then it is readable.
    /// It is not to be read, only each new event counts.
    pub(crate) fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        watch(self.event.try_clone()?, Interest::READABLE)
    }

    /// Whether so few buffers are left that received bytes must not stay in theirs.
    pub(crate) fn is_short_of_buffers(&self) -> bool {
        self.buffers.given.get() < BUFFERS / 2
    }

    /// Whether an operation has no completion yet.
    pub(crate) fn is_in_flight(&self, key: Key) -> bool {
        let entry = self.entries.get(key.index as usize);
        entry.is_some_and(|one| one.generation == key.generation && one.operation.is_some())
    }

    /// Number of operations without a completion.
    pub(crate) fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Starts an operation: the kernel learns of it with the next [`Kernel::enter`].
    pub(crate) fn start(&mut self, owner: T, order: Order) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, operation: None });
            u32::try_from(self.entries.len() - 1).expect("fewer operations than descriptors")
        });
        let entry = &mut self.entries[index as usize];
        let key = Key { index, generation: entry.generation };
        let fd = Fd(owner.as_fd().as_raw_fd());
        let submission = match &order {
            Order::Receive => opcode::Recv::new(fd, std::ptr::null_mut(), BUFFER_BYTES as u32)
                .ioprio(POLL_FIRST)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
            Order::Wait => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
            Order::Send(bytes) => {
                let length = u32::try_from(bytes.len()).expect("a message of less than 4 GiB");
                // It ends within the call. A wait of io_uring would end at once, again and again, for a peer
                // that has closed its direction, and then occupy a kernel thread.
                let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
                opcode::Send::new(fd, bytes.as_ptr(), length).flags(flags).build()
            }
        };
        // Before the submission: the memory is where it stays.
        entry.operation = Some((owner, order));
        self.push(&submission.user_data(key.to_bits()));
        key
    }

    /// Ends an operation early, unless it has completed; its completion comes in either case.
    pub(crate) fn cancel(&mut self, key: Key) {
        if self.is_in_flight(key) {
            let cancel = opcode::AsyncCancel::new(key.to_bits()).build();
            self.sleep_on();
            self.push(&cancel.user_data(NO_OPERATION));
        }
    }

    /// The end of the last operation, which comes within the call that submits it, ends no sleep.
    pub(crate) fn sleep_on(&mut self) {
        self.ending += 1;
    }

    fn push(&mut self, submission: &squeue::Entry) {
        loop {
            // SAFETY: what the operation refers to is in its entry until its completion.
            if unsafe { self.ring.submission().push(submission) }.is_ok() {
                return;
            }
            // Full. An error is temporary: the kernel has no memory.
            if self.submit(0, 0, None).is_err() {
                std::thread::yield_now();
            }
        }
    }

    /// Whether [`Kernel::enter`] has anything to do.
    pub(crate) fn is_due(&mut self) -> bool {
        #[cfg(test)]
        if self.disorder.as_ref().is_some_and(crate::tests::Disorder::is_due) {
            return true;
        }
        let submission = self.ring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
    }

    /// Submits everything that was started, and lets operations complete; after `sleep`, or as soon as one
    /// completes that does not end within the call. Returns whether there is already more to do, which is no
    /// event any more.
    pub(crate) fn enter(&mut self, sleep: Option<Duration>) -> bool {
        // What completes by the call is no event.
        self.ring.completion().disable_eventfd();
        let ending = std::mem::take(&mut self.ending);
        // An error is temporary, as above, or the end of the sleep.
        let _ = match sleep {
            None => self.submit(0, GET_EVENTS, None),
            Some(_) => self.submit(ending + 1, GET_EVENTS, sleep),
        };
        self.ring.completion().enable_eventfd();
        fence(Ordering::SeqCst);
        self.is_due()
    }

    fn submit(&mut self, wait_for: u32, flags: u32, until: Option<Duration>) -> io::Result<usize> {
        let count = self.ring.submission().len();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let submitter = self.ring.submitter();
        match until {
            None => {
                // SAFETY: without an argument there is nothing to be valid.
                unsafe { submitter.enter::<()>(count, wait_for, flags, None) }
            }
            Some(until) => {
                let timeout = Timespec::from(until);
                let arguments = io_uring::types::SubmitArgs::new().timespec(&timeout);
                // An idle thread does not wait for a disk.
                let flags = match self.ring.params().is_feature_no_iowait() {
                    true => EnterFlags::NO_IOWAIT,
                    false => EnterFlags::empty(),
                };
                submitter.submit_with_args_and_flags(wait_for as usize, &arguments, flags)
            }
        }
    }

    /// The next completed operation.
    pub(crate) fn next(&mut self) -> Option<Completed<T>> {
        loop {
            let completion = self.next_completion()?;
            let received = cqueue::buffer_select(completion.flags());
            if completion.user_data() == NO_OPERATION {
                continue;
            }
            let key = Key::from_bits(completion.user_data());
            let entry = &mut self.entries[key.index as usize];
            debug_assert_eq!(entry.generation, key.generation, "one completion per operation");
            let Some((owner, order)) = entry.operation.take() else { continue };
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(key.index);
            let count = match completion.result() {
                error @ ..0 => Err(Errno::from_raw_os_error(-error)),
                count => Ok(count as usize),
            };
            let outcome = match order {
                Order::Receive => {
                    let end = count.unwrap_or(0);
                    let buffer = received.map(|id| Received::new(&self.buffers, id, end));
                    Outcome::Received {
                        // Without bytes the buffer returns at once.
                        bytes: count.map(|count| buffer.filter(|_| count > 0)),
                        more: cqueue::sock_nonempty(completion.flags()),
                    }
                }
                Order::Wait => Outcome::Readable(count.map(drop)),
                Order::Send(memory) => Outcome::Sent { memory, count },
            };
            return Some(Completed { owner, outcome });
        }
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        #[cfg(test)]
        if let Some(disorder) = &mut self.disorder {
            return disorder.next(&mut self.ring);
        }
        self.ring.completion().next()
    }

    /// Has completions arrive in any order, some of them later.
    #[cfg(test)]
    pub(crate) fn disorder(&mut self, seed: u64) {
        self.disorder = Some(crate::tests::Disorder::new(seed));
    }

    /// Whether every buffer is the kernel's.
    #[cfg(test)]
    pub(crate) fn has_all_buffers(&self) -> bool {
        self.buffers.given.get() == BUFFERS
    }

    /// Cancels all operations, waits for their ends and returns them.
    pub(crate) fn end(&mut self) -> Vec<Completed<T>> {
        let keys: Vec<Key> = (0u32..)
            .zip(self.entries.iter())
            .filter(|(_, entry)| entry.operation.is_some())
            .map(|(index, entry)| Key { index, generation: entry.generation })
            .collect();
        keys.into_iter().for_each(|key| self.cancel(key));
        let (end, mut completed) = (Instant::now() + END, Vec::new());
        while self.in_flight() > 0 && Instant::now() < end {
            let _ = self.submit(1, GET_EVENTS, Some(END / 20));
            completed.extend(std::iter::from_fn(|| self.next()));
        }
        completed
    }
}

impl<T: AsFd> Drop for Kernel<T> {
    fn drop(&mut self) {
        drop(self.end());
        if self.in_flight() > 0 {
            return;
        }
        // SAFETY: not used after this, and the kernel has no operation left that refers to them; the ring
        // is released before the buffers that are registered with it.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.entries);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

impl<T: AsFd> std::fmt::Debug for Kernel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// Has the runtime of this thread watch a descriptor, which `owner` keeps, and keeps open.
pub(crate) fn watch<D: AsRawFd>(owner: D, interest: Interest) -> io::Result<AsyncFd<D>> {
    // SAFETY: the owners in this crate, an `OwnedFd` and a socket, do so.
    Ok(unsafe { AsyncFd::register_with_interest(owner, interest) }?)
}

/// The provided buffers, and the ring by which the kernel gets them.
#[derive(Debug)]
struct Buffers {
    /// [`BUFFERS`] entries, shared with the kernel.
    ring: NonNull<BufRingEntry>,
    /// [`BUFFERS`] times [`BUFFER_BYTES`] bytes.
    memory: NonNull<u8>,
    tail: Cell<u16>,
    /// Number of buffers that no [`Received`] has.
    given: Cell<u16>,
}

impl Buffers {
    const RING: Layout = layout(BUFFERS as usize * size_of::<BufRingEntry>());
    const MEMORY: Layout = layout(BUFFERS as usize * BUFFER_BYTES);

    fn new() -> Self {
        Self {
            ring: allocate(Self::RING).cast(),
            memory: allocate(Self::MEMORY),
            tail: Cell::new(0),
            given: Cell::new(0),
        }
    }

    fn buffer(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id < BUFFERS);
        // SAFETY: within the allocation.
        unsafe { self.memory.add(usize::from(id % BUFFERS) * BUFFER_BYTES) }
    }

    /// Gives a buffer to the kernel, which must not have it.
    fn add(&self, id: u16) {
        let tail = self.tail.get();
        // SAFETY: within the ring. The kernel reads the entry after the tail has passed it only, and the
        // ring has an entry for each buffer.
        unsafe {
            let entry = self.ring.add(usize::from(tail % BUFFERS)).as_mut();
            entry.set_addr(self.buffer(id).as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail.set(tail.wrapping_add(1));
        self.given.set(self.given.get() + 1);
        // SAFETY: the tail lies in the first entry, aligned, and only this thread writes it; the kernel
        // reads it as an atomic.
        let shared =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.ring.as_ptr()).cast_mut()) };
        shared.store(self.tail.get(), Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with these layouts in `new`.
        unsafe {
            dealloc(self.ring.as_ptr().cast(), Self::RING);
            dealloc(self.memory.as_ptr(), Self::MEMORY);
        }
    }
}

const fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, PAGE) {
        Ok(layout) => layout,
        Err(_) => panic!("the size of an allocation"),
    }
}

/// Pages that are in memory once they are used.
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Received bytes in a provided buffer.
#[derive(Debug)]
pub(crate) struct Received {
    buffers: Rc<Buffers>,
    id: u16,
    start: usize,
    end: usize,
}

impl Received {
    /// `end` bytes in a buffer that the kernel has handed over.
    fn new(buffers: &Rc<Buffers>, id: u16, end: usize) -> Self {
        buffers.given.set(buffers.given.get() - 1);
        Self { buffers: Rc::clone(buffers), id, start: 0, end: end.min(BUFFER_BYTES) }
    }

    /// Drops bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole = self.buffers.buffer(self.id);
        // SAFETY: the kernel has written `end` bytes, at most a buffer's, and has no access before the drop.
        let whole = unsafe { std::slice::from_raw_parts(whole.as_ptr(), self.end) };
        &whole[self.start..]
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.buffers.add(self.id);
    }
}
