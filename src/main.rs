//! The command-line tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(simflip::cli::run(std::env::args_os()))
}
