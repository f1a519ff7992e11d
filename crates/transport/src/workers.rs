//! Threads for work that may wait for a device.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use vfs::Executor;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads, started as they are needed up to a bound. Dropping the last handle finishes what is queued.
#[derive(Clone)]
pub struct Workers(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    most: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Jobs queued or running.
    pending: AtomicUsize,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// Threads waiting for a job.
    idle: usize,
    /// Whether one of them is being woken. It wakes the next when it has taken a job and there are more: many short jobs,
    /// as the removal of a directory's files, are then done by as many threads as there are cores for, and whoever queues
    /// them wakes one.
    waking: bool,
    closing: bool,
}

impl Queue {
    /// Whether a thread is to be woken now.
    fn wakes(&mut self) -> bool {
        let wakes = self.idle > 0 && !self.waking && !self.jobs.is_empty();
        self.waking |= wakes;
        wakes
    }
}

impl Workers {
    /// A pool of at most `most` threads; none is started before it is needed.
    pub fn new(most: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { jobs: VecDeque::new(), idle: 0, waking: false, closing: false }),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
        });
        Self(Arc::new(Owner { shared, threads: Mutex::new(Vec::new()), most: most.max(1) }))
    }

    /// Jobs queued or running now.
    pub fn pending(&self) -> usize {
        self.0.shared.pending.load(Relaxed)
    }
}

impl Owner {
    fn start_thread(&self) {
        let mut threads = self.threads.lock();
        if threads.len() >= self.most {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started =
            std::thread::Builder::new().name(format!("worker-{}", threads.len())).spawn(move || shared.work());
        match started {
            Ok(handle) => threads.push(handle),
            Err(error) if threads.is_empty() => tracing::error!(%error, "cannot start a worker thread"),
            Err(error) => tracing::warn!(%error, "cannot start one more worker thread"),
        }
    }
}

impl Executor for Workers {
    fn run(&self, job: Job) {
        let shared = &self.0.shared;
        let (too_few, wakes) = {
            let mut queue = shared.queue.lock();
            queue.jobs.push_back(job);
            (queue.idle < queue.jobs.len(), queue.wakes())
        };
        shared.pending.fetch_add(1, Relaxed);
        if too_few {
            self.0.start_thread();
        }
        if wakes {
            shared.wake.notify_one();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job on a worker panicked; its request is answered with an error");
            }
            self.pending.fetch_sub(1, Relaxed);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                let wakes = queue.wakes();
                drop(queue);
                if wakes {
                    self.wake.notify_one();
                }
                return Some(job);
            }
            if queue.closing {
                return None;
            }
            queue.idle += 1;
            self.wake.wait(&mut queue);
            queue.idle -= 1;
            queue.waking = false;
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.wake.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            // A worker may hold the last handle itself, and a thread cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_run_at_the_same_time_and_a_panic_ends_only_its_own() {
        let workers = Workers::new(2);
        let (a_says, a_heard) = mpsc::channel();
        let (b_says, b_heard) = mpsc::channel();
        let (done, all_done) = mpsc::channel();
        workers.run(Box::new(|| panic!("expected in this test")));
        let first_done = done.clone();
        workers.run(Box::new(move || {
            a_says.send(()).unwrap();
            b_heard.recv_timeout(Duration::from_secs(10)).unwrap();
            first_done.send(()).unwrap();
        }));
        workers.run(Box::new(move || {
            b_says.send(()).unwrap();
            a_heard.recv_timeout(Duration::from_secs(10)).unwrap();
            done.send(()).unwrap();
        }));
        for _ in 0..2 {
            all_done.recv_timeout(Duration::from_secs(10)).unwrap();
        }
    }

    #[test]
    fn jobs_that_wait_for_each_other_all_get_a_thread() {
        const JOBS: usize = 8;
        let workers = Workers::new(JOBS);
        for _ in 0..50 {
            let all_there = Arc::new(std::sync::Barrier::new(JOBS));
            let (done, all_done) = mpsc::channel();
            for _ in 0..JOBS {
                let (all_there, done) = (Arc::clone(&all_there), done.clone());
                workers.run(Box::new(move || {
                    all_there.wait();
                    done.send(()).unwrap();
                }));
            }
            for _ in 0..JOBS {
                all_done.recv_timeout(Duration::from_secs(10)).unwrap();
            }
        }
    }

    #[test]
    fn what_is_queued_is_done_before_the_pool_ends() {
        let workers = Workers::new(1);
        let (sender, receiver) = mpsc::channel();
        for i in 0..100 {
            let sender = sender.clone();
            workers.run(Box::new(move || sender.send(i).unwrap()));
        }
        drop(workers);
        assert_eq!(receiver.try_iter().count(), 100);
    }
}
