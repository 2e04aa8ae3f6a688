//! The helper JVM: scripts of JMeter plans in Groovy, BeanShell and other languages of the JVM, and
//! functions that the Lab does not have, on the classes of a JMeter installation.
//!
//! ```text
//! users → frames → one write → helper (a context for each user) → one read → replies → users
//! ```
//!
//! The event loops never block: a user waits for its reply, the loop goes on.

mod frame;
mod process;

pub(crate) use frame::{Call, ChangedRequest, Flow, Outcome, Sample};
pub use process::Helper;
