//! The command line: one file for each subcommand, with its arguments and what it does. Only here is clap known.
//!
//! Exit codes: 0 done; 1 done, but damaged input was skipped; 2 failed.

mod arguments;
mod calibrate;
mod compare;
mod dedup;
mod evaluate;
mod explain;
mod hash;
mod inspect;
mod plan;
mod progress;
mod review;
mod seen;

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Finds near-duplicate pages in web text, and proves how many it found.
#[derive(Debug, Parser)]
#[command(name = "flipside", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dedup(dedup::Args),
    Compare(compare::Args),
    Calibrate(calibrate::Args),
    Evaluate(evaluate::Args),
    Explain(explain::Args),
    Review(review::Args),
    Hash(hash::Args),
    Seen(seen::Args),
    Inspect(inspect::Args),
    Plan(plan::Args),
    /// Print a script that completes this program's arguments in a shell.
    #[command(after_help = "Example: flipside completions bash > /etc/bash_completion.d/flipside")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(after_help = "Example: flipside man | man -l -")]
    Man,
}

/// What a command came to.
enum Done {
    Well,
    /// Damaged input was skipped.
    WithDamage,
}

/// Runs the program and gives its exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let typed = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !flipside::corpus::panic_is_damage() {
            usual(panic);
        }
    }));
    let result = match Cli::parse_from(arguments).command {
        Command::Dedup(args) => args.run(typed),
        Command::Compare(args) => args.run(typed),
        Command::Calibrate(args) => args.run(),
        Command::Evaluate(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Review(args) => args.run(),
        Command::Hash(args) => args.run(),
        Command::Seen(args) => args.run(),
        Command::Inspect(args) => args.run(),
        Command::Plan(args) => args.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "flipside", &mut script);
            print(&script)
        }
        Command::Man => manual().and_then(|page| print(&page)),
    };
    match result {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::WithDamage) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flipside: {}", told(&error));
            ExitCode::from(2)
        }
    }
}

/// The manual page, with a section for each command.
fn manual() -> anyhow::Result<Vec<u8>> {
    let command = Cli::command();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands() {
        let name = format!("flipside {}", subcommand.get_name());
        let man = clap_mangen::Man::new(subcommand.clone().name(name.clone()).bin_name(name.clone()));
        writeln!(page, ".SH {}", name.to_uppercase())?;
        man.render_description_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    Ok(page)
}

/// Writes a result to standard output.
fn print(bytes: &[u8]) -> anyhow::Result<Done> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Done::Well)
}

/// An error with its causes, save those that the one before has told already.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the reader of our output has gone, which is no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let missing = || flipside::Error::io("pages.wet", io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(told(&missing().into()), missing().to_string());
        let context = anyhow::Error::from(missing()).context("reading");
        assert_eq!(told(&context), format!("reading: {}", missing()));
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_manual_names_every_command() {
        let page = String::from_utf8(manual().unwrap()).unwrap();
        for command in Cli::command().get_subcommands() {
            assert!(
                page.contains(&format!("FLIPSIDE {}", command.get_name().to_uppercase())),
                "{}",
                command.get_name()
            );
        }
    }
}
