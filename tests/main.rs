//! The integration tests, linked once.

mod against;
mod arrow;
mod cli;
mod commands;
mod edges;
mod floors;
mod frames;
mod gather;
#[cfg(feature = "html")]
mod html;
mod kept;
mod mark;
mod memory;
mod paper;
mod parquet;
mod place;
mod reading;
mod review;
mod seen;
mod specimens;
mod staged;
mod stays;
mod worst;
