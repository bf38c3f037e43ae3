//! How right a result is: compared with a truth, or, without one, from a sample that a person judges.
//!
//! Each metric stands in its own file with its formula. Every figure comes with the counts it was made of, its
//! denominator and an interval; a precision, a recall and an F1 are never one another.

pub mod bcubed;
pub mod found;
pub mod interval;
pub mod pair_score;
pub mod partition;
pub mod rand_index;
mod table;
pub mod truth;
