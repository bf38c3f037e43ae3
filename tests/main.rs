//! The integration tests, linked once.

mod against;
mod cli;
mod edges;
mod floors;
mod frames;
mod kept;
mod parquet;
mod reading;
mod results_v1;
mod review;
mod seen;
mod specimens;
mod worst;
