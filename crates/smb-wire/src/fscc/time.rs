//! Points in time as MS-DTYP 2.3.3 and MS-FSCC 2.1.1 write them. Pure arithmetic that saturates; no clock.

/// 100-nanosecond units since 1601-01-01 UTC. 0 is "no time".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileTime(pub u64);

/// What a time in a SET asks for (MS-FSCC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUpdate {
    /// 0: leave it as it is.
    Keep,
    /// -1: leave it, and do not update it for what this handle does from now on.
    Freeze,
    /// -2: update it again for what this handle does.
    Thaw,
    /// This moment.
    Set(FileTime),
}

const UNITS_PER_SEC: u64 = 10_000_000;
const NANOS_PER_UNIT: u32 = 100;
/// Seconds from 1601-01-01 to 1970-01-01: 369 years, 89 of them leap years.
const SECS_1601_TO_1970: i64 = 11_644_473_600;

impl FileTime {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// The latest time a client takes for one: the wire number is signed and negative numbers mean something else.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Seconds and nanoseconds since 1970; what cannot be written becomes the nearest that can. Nothing becomes 0, the
    /// word for no time: a moment at or before 1601-01-01 is one unit after it.
    pub fn from_unix(secs: i64, nanos: u32) -> Self {
        let Ok(secs) = u64::try_from(secs.saturating_add(SECS_1601_TO_1970)) else { return Self(1) };
        let units = secs.saturating_mul(UNITS_PER_SEC).saturating_add(u64::from(nanos / NANOS_PER_UNIT));
        Self(units.clamp(1, Self::MAX.0))
    }

    /// Whole seconds since 1970, negative before, and nanoseconds into that second.
    pub fn to_unix(self) -> (i64, u32) {
        let secs = i64::try_from(self.0 / UNITS_PER_SEC).unwrap_or(i64::MAX);
        let units = u32::try_from(self.0 % UNITS_PER_SEC).unwrap_or(0);
        (secs.saturating_sub(SECS_1601_TO_1970), units * NANOS_PER_UNIT)
    }

    /// What this number asks for in a SET; `None` for the negative numbers below -2, which are
    /// STATUS_INVALID_PARAMETER (MS-FSA 2.1.5, set FileBasicInformation).
    pub fn as_update(self) -> Option<TimeUpdate> {
        match self.0.cast_signed() {
            0 => Some(TimeUpdate::Keep),
            -1 => Some(TimeUpdate::Freeze),
            -2 => Some(TimeUpdate::Thaw),
            n if n < 0 => None,
            _ => Some(TimeUpdate::Set(self)),
        }
    }
}

impl From<TimeUpdate> for FileTime {
    fn from(update: TimeUpdate) -> Self {
        match update {
            TimeUpdate::Keep => Self(0),
            TimeUpdate::Freeze => Self(u64::MAX),
            TimeUpdate::Thaw => Self(u64::MAX - 1),
            TimeUpdate::Set(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(FileTime::from_unix(0, 0), FileTime(116_444_736_000_000_000));
        // 2009-02-13T23:31:30.123456700Z
        assert_eq!(FileTime::from_unix(1_234_567_890, 123_456_789), FileTime(128_790_414_901_234_567));
        assert_eq!(FileTime(128_790_414_901_234_567).to_unix(), (1_234_567_890, 123_456_700));
    }

    #[test]
    fn before_1970_the_nanoseconds_still_count_up() {
        let time = FileTime::from_unix(-1, 500_000_000);
        assert_eq!(time, FileTime(116_444_735_995_000_000));
        assert_eq!(time.to_unix(), (-1, 500_000_000));
    }

    #[test]
    fn what_cannot_be_written_saturates() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(1));
        assert_eq!(FileTime::from_unix(-SECS_1601_TO_1970, 0), FileTime(1));
        assert_eq!(FileTime::from_unix(i64::MAX, 999_999_999), FileTime::MAX);
        assert_eq!(FileTime(0).to_unix(), (-SECS_1601_TO_1970, 0));
        assert_eq!(FileTime(u64::MAX).to_unix(), (1_844_674_407_370 - SECS_1601_TO_1970, 955_161_500));
    }

    #[test]
    fn special_numbers_of_a_set() {
        for (wire, want) in [
            (0, Some(TimeUpdate::Keep)),
            (u64::MAX, Some(TimeUpdate::Freeze)),
            (u64::MAX - 1, Some(TimeUpdate::Thaw)),
            (u64::MAX - 2, None),
            (1 << 63, None),
            (1, Some(TimeUpdate::Set(FileTime(1)))),
        ] {
            assert_eq!(FileTime(wire).as_update(), want, "{wire:#x}");
            if let Some(update) = want {
                assert_eq!(FileTime::from(update), FileTime(wire));
            }
        }
    }
}
