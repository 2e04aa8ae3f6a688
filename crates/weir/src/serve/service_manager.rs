//! Notifications of the service manager (systemd, `Type=notify`). Without one they go nowhere.

use sd_notify::NotifyState;

/// All sockets are bound and served.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The drain has begun.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Another process is the main process of the service from now on.
pub(super) fn main_process(pid: u32) {
    notify(&[NotifyState::MainPid(pid)]);
}

fn notify(state: &[NotifyState<'_>]) {
    // A manager that does not listen changes nothing.
    let _ = sd_notify::notify(state);
}
