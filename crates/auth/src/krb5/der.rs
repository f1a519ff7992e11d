//! As much of DER as Kerberos messages are made of (RFC 4120 5.1, X.690): definite lengths, context and application
//! tags. The reader copies nothing and looks at no byte outside what it was given; whatever follows in an element's
//! place is an error, and so is an element that does not fit into the one around it.

/// The bytes are no such message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const GENERAL_STRING: u8 = 0x1b;
pub(super) const SEQUENCE: u8 = 0x30;

/// The constructed tag `[n]`.
pub(super) const fn context(n: u8) -> u8 {
    0xa0 | n
}

/// The constructed tag `[APPLICATION n]`.
pub(super) const fn application(n: u8) -> u8 {
    0x60 | n
}

/// Reads elements one after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The content of the next element, which must have this tag.
    pub fn element(&mut self, tag: u8) -> Result<Self, Malformed> {
        let (found, content, rest) = split(self.rest).ok_or(Malformed)?;
        if found != tag {
            return Err(Malformed);
        }
        self.rest = rest;
        Ok(Self { rest: content })
    }

    /// `[n]`, then what `read` takes, and nothing behind it.
    pub fn field<T>(&mut self, n: u8, read: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<T, Malformed> {
        let mut inner = self.element(context(n))?;
        let value = read(&mut inner)?;
        inner.end()?;
        Ok(value)
    }

    /// The same for a field that may be missing.
    pub fn optional_field<T>(
        &mut self,
        n: u8,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.rest.first() == Some(&context(n)) { self.field(n, read).map(Some) } else { Ok(None) }
    }

    /// An integer of at most eight bytes.
    pub fn integer(&mut self) -> Result<i64, Malformed> {
        let bytes = self.element(INTEGER)?.rest;
        let negative = *bytes.first().ok_or(Malformed)? >= 0x80;
        if bytes.len() > 8 {
            return Err(Malformed);
        }
        let start = if negative { -1 } else { 0 };
        Ok(bytes.iter().fold(start, |value, byte| value << 8 | i64::from(*byte)))
    }

    pub fn int32(&mut self) -> Result<i32, Malformed> {
        self.integer()?.try_into().map_err(|_| Malformed)
    }

    /// An UInt32, which some peers send as a negative number (RFC 4120 5.2.4 and 5.5.1).
    pub fn uint32(&mut self) -> Result<u32, Malformed> {
        let value = self.integer()?;
        match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => i32::try_from(value).map(|value| value as u32).map_err(|_| Malformed),
        }
    }

    pub fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        Ok(self.element(OCTET_STRING)?.rest)
    }

    /// The first 32 flags of a bit string, the first of them the highest bit; a shorter one has zeros behind it.
    pub fn flags(&mut self) -> Result<u32, Malformed> {
        let (unused, bits) = self.element(BIT_STRING)?.rest.split_first().ok_or(Malformed)?;
        if *unused > 7 {
            return Err(Malformed);
        }
        let mut word = [0; 4];
        word.iter_mut().zip(bits).for_each(|(to, from)| *to = *from);
        Ok(u32::from_be_bytes(word))
    }

    /// A KerberosString; what it holds is UTF-8 in practice.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.element(GENERAL_STRING)?.rest).map_err(|_| Malformed)
    }

    /// A KerberosTime, in seconds since 1970.
    pub fn time(&mut self) -> Result<i64, Malformed> {
        let text: &[u8; 15] = self.element(GENERALIZED_TIME)?.rest.try_into().map_err(|_| Malformed)?;
        seconds(text).ok_or(Malformed)
    }

    /// There must be nothing more.
    pub fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// The tag, content and rest of the first element.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first & 0x80 != 0 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, behind) = rest.split_at_checked(count)?;
        len = digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit));
        rest = behind;
    }
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Appends an element whose content `fill` appends.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = zeroize::Zeroizing::new(Vec::new());
    fill(&mut content);
    out.push(tag);
    put_length(out, content.len());
    out.extend_from_slice(&content);
}

/// Appends a length.
pub(super) fn put_length(out: &mut Vec<u8>, len: usize) {
    if len < 0x80 {
        return out.push(len as u8);
    }
    let digits = len.to_be_bytes();
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    out.push(0x80 | (digits.len() - zeros) as u8);
    out.extend(digits.iter().skip(zeros));
}

/// Appends `[n]` with what `fill` appends in it.
pub(super) fn put_field(out: &mut Vec<u8>, n: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    put(out, context(n), fill);
}

pub(super) fn put_integer(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_be_bytes();
    let is_spare =
        |pair: &&[u8]| matches!(**pair, [0, next] if next < 0x80) || matches!(**pair, [0xff, next] if next >= 0x80);
    let spare = bytes.windows(2).take_while(is_spare).count();
    put(out, INTEGER, |out| out.extend(bytes.iter().skip(spare)));
}

pub(super) fn put_octets(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, OCTET_STRING, |out| out.extend_from_slice(bytes));
}

pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    put(out, GENERAL_STRING, |out| out.extend_from_slice(text.as_bytes()));
}

pub(super) fn put_flags(out: &mut Vec<u8>, flags: u32) {
    put(out, BIT_STRING, |out| {
        out.push(0);
        out.extend(flags.to_be_bytes());
    });
}

pub(super) fn put_time(out: &mut Vec<u8>, seconds: i64) {
    put(out, GENERALIZED_TIME, |out| out.extend(calendar(seconds).bytes()));
}

/// `YYYYMMDDHHMMSSZ` in seconds since 1970.
fn seconds(text: &[u8; 15]) -> Option<i64> {
    let (&zone, digits) = text.split_last()?;
    if zone != b'Z' || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, to: usize| {
        digits.get(from..to).unwrap_or_default().iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0'))
    };
    let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
    let (hour, minute, second) = (number(8, 10), number(10, 12), number(12, 14));
    let is_real = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_real.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar: years begin in March, so that the odd day is at their end.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The way back.
fn calendar(seconds: i64) -> String {
    let (shifted, time) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_both_ways() {
        for (text, value) in [
            ("19700101000000Z", 0),
            ("20000229235959Z", 951_868_799),
            ("20240301000000Z", 1_709_251_200),
            ("19691231235959Z", -1),
            ("99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(seconds(text.as_bytes().try_into().unwrap()), Some(value), "{text}");
            assert_eq!(calendar(value), text);
        }
        for wrong in ["20241301000000Z", "20240001000000Z", "2024010100000 Z", "202401010000000", "20240132000000Z"] {
            assert_eq!(seconds(wrong.as_bytes().try_into().unwrap()), None, "{wrong}");
        }
    }

    #[test]
    fn integers_both_ways() {
        for (value, bytes) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 0x7f]),
            (128, &[2, 2, 0, 0x80]),
            (-1, &[2, 1, 0xff]),
            (-129, &[2, 2, 0xff, 0x7f]),
            (i64::MAX, &[2, 8, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
        ] {
            let mut out = Vec::new();
            put_integer(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Reader::new(bytes).integer(), Ok(value));
        }
        assert_eq!(Reader::new(&[2, 1, 0xff]).uint32(), Ok(u32::MAX));
        assert_eq!(Reader::new(&[2, 5, 0, 0xff, 0xff, 0xff, 0xff]).uint32(), Ok(u32::MAX));
        assert_eq!(Reader::new(&[2, 0]).integer(), Err(Malformed));
        assert_eq!(Reader::new(&[2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1]).integer(), Err(Malformed));
    }

    #[test]
    fn lengths_are_held_to_what_is_there() {
        for wrong in [
            &[][..],
            &[0x30],
            &[0x30, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x81],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 0],
            &[0x30, 0xff, 0, 0],
        ] {
            assert!(Reader::new(wrong).element(SEQUENCE).is_err(), "{wrong:02x?}");
        }
        let mut out = Vec::new();
        put(&mut out, SEQUENCE, |out| out.resize(300, 7));
        assert_eq!(out.get(..4), Some(&[0x30, 0x82, 1, 44][..]));
        assert_eq!(Reader::new(&out).element(SEQUENCE).map(|inner| inner.rest().len()), Ok(300));
    }
}
