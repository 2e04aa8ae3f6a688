//! The process around the threads of the fleet.

/// What a thread of the fleet needs of the process that runs it.
pub trait Host {
    /// Whether the thread is to end.
    fn stopped(&self) -> bool;
    /// Writes a message.
    fn note(&mut self, text: &str);
    /// Writes a message about a failure: once, until the next success.
    fn failed(&mut self, text: &str);
    /// The failure is over.
    fn succeeded(&mut self);
}
