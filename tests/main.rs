//! The integration tests, linked once.

mod cli;
mod reading;
mod specimens;
