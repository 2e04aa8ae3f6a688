//! End of a load: by signals, after a time, or by the parent process.

use std::io::Read;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weir_lab::engine::Control;

/// The first signal waits for requests in flight, the second one does not.
pub(super) fn stop(control: &Control) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let control = control.clone();
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            for stop in [Control::stop, Control::stop_now] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                stop(&control);
            }
        });
    };
    std::thread::Builder::new().name("lab-signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Ends a load after a time.
pub(super) fn within(control: &Control, time: Duration) -> std::io::Result<()> {
    let control = control.clone();
    let wait = move || {
        std::thread::sleep(time);
        control.stop();
    };
    std::thread::Builder::new().name("lab-within".to_owned()).spawn(wait).map(drop)
}

/// Ends a load at the end of standard input.
pub(super) fn attended(control: &Control) -> std::io::Result<()> {
    let control = control.clone();
    let wait = move || {
        let mut rest = [0; 256];
        let mut input = std::io::stdin().lock();
        while matches!(input.read(&mut rest), Ok(1..)) {}
        control.stop();
    };
    std::thread::Builder::new().name("lab-attended".to_owned()).spawn(wait).map(drop)
}
