//! The integration tests, linked once.

mod cli;
mod floors;
mod parquet;
mod reading;
mod review;
mod specimens;
mod worst;
