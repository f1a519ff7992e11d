//! The window of message ids the server lets us use (MS-SMB2 3.2.4.1.2, 3.2.5.1.4). Every request passes through here;
//! an id must never be used twice.

/// The window.
#[derive(Debug)]
pub(crate) struct Credits {
    next_id: u64,
    available: u64,
    in_flight: u64,
    target: u64,
}

impl Credits {
    /// A new connection's: one credit, for NEGOTIATE. `target`: how far the window should grow.
    pub fn new(target: u16) -> Self {
        Self { next_id: 0, available: 1, in_flight: 0, target: target.max(1).into() }
    }

    /// Takes `charge` ids in a row, of which the first is the message's; `None` when the window has not that many now.
    pub fn take(&mut self, charge: u16) -> Option<u64> {
        let charge = u64::from(charge.max(1));
        self.available = self.available.checked_sub(charge)?;
        self.in_flight += charge;
        self.next_id = self.next_id.checked_add(charge)?;
        Some(self.next_id - charge)
    }

    /// How many credits to ask for with a request of `charge`: what it costs, and what is missing.
    pub fn to_request(&self, charge: u16) -> u16 {
        let missing = self.target.saturating_sub(self.window());
        u16::try_from(missing.saturating_add(charge.max(1).into())).unwrap_or(u16::MAX)
    }

    /// A response grants `credits`. Interim ones too.
    pub fn grant(&mut self, credits: u16) {
        // More than every id there is cannot be used; what a hostile server grants is not kept beyond reason.
        self.available = self.available.saturating_add(credits.into()).min(1 << 20);
    }

    /// A request of `charge` is answered.
    pub fn answered(&mut self, charge: u16) {
        self.in_flight = self.in_flight.saturating_sub(charge.max(1).into());
    }

    /// The whole window: what could be in flight at a time.
    pub fn window(&self) -> u64 {
        self.available + self.in_flight
    }

    /// Whether a request of `charge` can never go out as the window is.
    pub fn is_too_large(&self, charge: u16) -> bool {
        self.in_flight == 0 && self.available < u64::from(charge.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_one_another_and_the_window_grows() {
        let mut credits = Credits::new(100);
        assert_eq!(credits.to_request(1), 100);
        assert_eq!(credits.take(0), Some(0));
        assert_eq!(credits.take(1), None);
        credits.answered(1);
        credits.grant(20);
        assert_eq!(credits.to_request(16), 96);
        assert_eq!(credits.take(16), Some(1));
        assert_eq!(credits.take(5), None);
        assert_eq!(credits.take(4), Some(17));
        assert_eq!(credits.take(1), None);
        assert!(!credits.is_too_large(30), "what is in flight may yet bring some");
        credits.answered(16);
        credits.answered(4);
        assert!(credits.is_too_large(1));
        credits.grant(u16::MAX);
        assert_eq!(credits.to_request(1), 1, "the window is wide enough");
        (0..100).for_each(|_| credits.grant(u16::MAX));
        assert!(credits.window() <= 1 << 20);
    }
}
