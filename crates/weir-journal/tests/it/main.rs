//! The journal as a process meets it: killed, on a full disk, in threads of their own.

mod descriptors;
mod full_disk;
mod kill;
