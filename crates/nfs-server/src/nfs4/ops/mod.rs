//! The operations, a file for each family. Each is a function that takes the compound and its arguments, appends its
//! result to the reply and answers the result's status; [`super::table`] calls them.

pub(super) mod client;
pub(super) mod close;
pub(super) mod create;
pub(super) mod delegation;
pub(super) mod handles;
pub(super) mod io;
pub(super) mod listing;
pub(super) mod lock;
pub(super) mod names;
pub(super) mod object;
pub(super) mod open;
mod open_file;
pub(super) mod ranges;
mod sequenced;
pub(super) mod session;
pub(super) mod stateid;
pub(super) mod xattr;
