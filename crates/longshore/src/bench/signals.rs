//! What ends a measurement from outside. The first signal ends what is measured, so that what was seen is reported and every
//! server that was started is stopped in order; a second one ends the process, and them, at once.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::contest::problem;
use super::load::Stop;
use super::process;
use crate::failure::Failure;

/// Watches for INT, TERM and HUP from now on.
pub fn watch() -> Result<Arc<Stop>, Failure> {
    let failed = |error: std::io::Error| Failure::system(format!("cannot watch for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let inside = runtime.enter();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [interrupt, terminate, hang_up] = kinds.map(signal);
    let signals = [interrupt.map_err(failed)?, terminate.map_err(failed)?, hang_up.map_err(failed)?];
    drop(inside);
    let stop = Arc::<Stop>::default();
    let told = Arc::clone(&stop);
    let watching = move || runtime.block_on(wait(signals, &told));
    std::thread::Builder::new().name("bench-signals".to_owned()).spawn(watching).map_err(failed)?;
    Ok(stop)
}

async fn wait([mut interrupt, mut terminate, mut hang_up]: [Signal; 3], stop: &Stop) {
    for _ in 0..2 {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        if stop.is_told() {
            process::end_all();
            std::process::exit(1);
        }
        problem("ending; what was seen so far is reported");
        stop.tell();
    }
}
