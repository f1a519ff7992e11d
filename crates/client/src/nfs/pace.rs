//! How often and how long something is tried again that a server does not do just now.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses that grow, until the time is over.
#[derive(Debug)]
pub(crate) struct Pace {
    until: Instant,
    pause: Duration,
}

impl Pace {
    pub fn new(timeout: Duration) -> Self {
        /// As long as it takes.
        const EVER: Duration = Duration::from_secs(u32::MAX as u64);
        Self { until: Instant::now() + timeout.min(EVER), pause: FIRST_PAUSE }
    }

    /// Waits for the next try; false when there is none.
    pub async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        true
    }
}
