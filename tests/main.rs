//! The integration tests, linked once.

mod cli;
mod reading;
mod review;
mod specimens;
mod worst;
