//! End of a load: by signals, after a time, or by the parent process.

use std::io;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_lab::engine::Control;

/// The first signal waits for requests in flight, the second one does not. A closed terminal (SIGHUP) is one, too:
/// servers, which are in process groups of their own, would run on.
pub(super) fn stop(control: &Control) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let control = control.clone();
    let (mut interrupt, mut terminate, mut hangup) = {
        let _guard = runtime.enter();
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, hangup)
    };
    let wait = move || {
        runtime.block_on(async {
            for stop in [Control::stop, Control::stop_now] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    () = received(hangup.as_mut()) => {}
                }
                stop(&control);
            }
        });
    };
    std::thread::Builder::new().name("lab-signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Waits for a signal; without one, for ever.
async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP is ignored: `nohup` starts programs like this, which are to go on without a terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal n is bit n - 1.
    ignored.is_some_and(|mask| mask & 1 == 1)
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
