//! End of a load: by signals, after a time, or by the parent process.

use std::io;
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
pub(super) fn within(control: &Control, time: Duration) -> io::Result<()> {
    stop_after("lab-within", control, move || std::thread::sleep(time))
}

/// Ends a load at the end of standard input.
pub(super) fn attended(control: &Control) -> io::Result<()> {
    stop_after("lab-attended", control, || {
        // An error is an end, too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    })
}

/// Ends a load when `wait` returns, on a thread of its own.
fn stop_after(
    name: &str,
    control: &Control,
    wait: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let control = control.clone();
    let wait = move || {
        wait();
        control.stop();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(wait).map(drop)
}
