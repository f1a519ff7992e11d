//! Who holds what on which file: opens, share modes, byte ranges, delete-pending. Pure; the clock is passed in.
