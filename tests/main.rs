//! The integration tests, linked once.

mod reading;
mod specimens;
