//! The integration tests, linked once.

mod cli;
mod edges;
mod floors;
mod parquet;
mod reading;
mod results_v1;
mod review;
mod specimens;
mod worst;
