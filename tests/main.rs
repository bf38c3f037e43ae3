//! The integration tests, linked once.

// Some tests are of what Unix has alone.
#![cfg_attr(not(unix), allow(dead_code, unused_imports))]

mod against;
mod arrow;
mod boilerplate;
mod cli;
mod commands;
mod comments;
mod edges;
#[cfg(target_os = "linux")]
mod faults;
mod floors;
mod gather;
#[cfg(feature = "html")]
mod html;
mod imports;
mod keep;
mod kept;
mod mark;
#[cfg(feature = "serve")]
mod mcp;
mod memory;
mod names;
mod paper;
mod parquet;
mod place;
mod reading;
mod rethreshold;
mod review;
mod seen;
mod specimens;
mod staged;
mod worst;
