//! A Longshore backend over a POSIX directory.
