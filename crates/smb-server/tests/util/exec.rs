//! An executor that parks every job until the test says which one runs: the way to force a request to wait and to finish
//! requests in another order than they came.

use parking_lot::Mutex;
use vfs::Executor;

use super::Rng;

type Job = Box<dyn FnOnce() + Send>;

/// Parked jobs.
#[derive(Default)]
pub struct ManualExecutor(Mutex<Vec<Job>>);

impl Executor for ManualExecutor {
    fn run(&self, job: Job) {
        self.0.lock().push(job);
    }
}

impl ManualExecutor {
    /// How many are parked.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Runs the one at `index`, counted in the order they came.
    pub fn run_at(&self, index: usize) {
        let job = self.0.lock().remove(index);
        job();
    }

    /// Runs any one; false when there is none.
    pub fn run_any(&self, rng: &mut Rng) -> bool {
        let count = self.len();
        if count > 0 {
            self.run_at(rng.below(count));
        }
        count > 0
    }

    /// Runs all, and those they bring about.
    pub fn run_all(&self) {
        while self.len() > 0 {
            self.run_at(0);
        }
    }
}
