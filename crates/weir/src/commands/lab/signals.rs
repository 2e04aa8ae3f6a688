//! Signals that end a load.

use tokio::signal::unix::{SignalKind, signal};
use weir_lab::engine::Control;

/// The first signal lets what is under way end, the second does not.
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
