//! The reader against a plain one on good files.
