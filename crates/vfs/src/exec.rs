//! The seam to whatever runs work that may wait: the transport's worker pool, or nothing at all in a test.

use futures_channel::oneshot;

/// Runs jobs that may wait for a device, each on some thread other than the caller's, in no promised order.
pub trait Executor: Send + Sync {
    /// Queues `job`. Every queued job runs, also while the server shuts down.
    fn run(&self, job: Box<dyn FnOnce() + Send>);
}

/// Runs each job at once on the caller's thread: for tests and simulation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inline;

impl Executor for Inline {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// Runs `job` on `executor` and resolves to its result; `None` only if the job panicked. Dropping the future does not
/// stop the job.
pub async fn offload<R: Send + 'static>(
    executor: &dyn Executor,
    job: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (sender, receiver) = oneshot::channel();
    executor.run(Box::new(move || {
        // The receiver is gone when the connection is: the result then has no reader.
        let _ = sender.send(job());
    }));
    receiver.await.ok()
}
