//! Code that needs `unsafe`, each piece behind a safe face.

pub mod inflate;
