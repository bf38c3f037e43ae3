//! The integration tests, linked once.

mod cli;
mod edges;
mod floors;
mod frames;
mod parquet;
mod reading;
mod results_v1;
mod review;
mod seen;
mod specimens;
mod staged;
mod worst;
