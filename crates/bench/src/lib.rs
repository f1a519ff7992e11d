//! Measuring file servers so that the answer can be trusted: what was declared beforehand ([`plan`]), what was seen
//! ([`observation`]), what follows from it ([`stats`]) and how it is shown ([`report`]). The command line runs the plan
//! and hands the observations in; nothing here opens a socket, reads a clock or touches a file, so that the same
//! observations give the same report for ever.
//!
//! The way through: a [`plan::Declaration`] becomes a [`plan::Plan`], whose [`plan::Plan::order`] says which cell is run
//! when; each run becomes an [`observation::Observation`]; plan and observations become a [`report::Report`], which
//! computes the [`stats::Analysis`] and draws it as JSON, as a table and as a page. What a run sends is a
//! [`workload::Workload`], what of it counts a [`tally::Tally`].

#![forbid(unsafe_code)]

pub mod error;
pub mod histogram;
pub mod observation;
pub mod plan;
pub mod report;
pub mod rng;
pub mod stats;
pub mod tally;
pub mod threshold;
pub mod workload;

pub use error::Error;
