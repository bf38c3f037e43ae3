//! The integration tests, linked once.

mod cli;
mod parquet;
mod reading;
mod review;
mod specimens;
mod worst;
