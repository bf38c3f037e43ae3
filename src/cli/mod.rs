//! The command line: one file for each subcommand, with a struct of its arguments, whose `run` does the work.
//! Only here is clap known: it parses the arguments, and makes the help of the comments of these structs. [`run`] is
//! the whole program; a binding of another language takes its settings and jobs from [`options`], so that its keywords
//! are the command line's.
//!
//! Exit codes: 0 done; 1 done, but corrupt input was skipped; 2 failed. A signal that ends the program ends it
//! as it does any other, once what was begun is taken away.

mod arguments;
mod calibrate;
mod compare;
mod decontaminate;
mod dedup;
mod evaluate;
mod explain;
mod gather;
mod hash;
mod index;
mod inspect;
mod mark;
#[cfg(feature = "serve")]
mod mcp;
pub mod options;
mod plan;
mod progress;
mod rethreshold;
mod review;
mod seen;
#[cfg(feature = "serve")]
mod serve;
#[cfg(unix)]
mod signals;
mod staged;
mod upload;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use simflip::display::{printable, printable_json};
use simflip::{Error, terminal};
use std::ffi::OsString;
use std::io::{self, Write};

/// Finds near-duplicate documents in web text, and measures how many of them it found.
#[derive(Debug, Parser)]
#[command(name = "simflip", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dedup(dedup::DedupArgs),
    Decontaminate(decontaminate::DecontaminateArgs),
    Gather(gather::GatherArgs),
    Sketch(staged::SketchArgs),
    Join(staged::JoinArgs),
    Cluster(staged::ClusterArgs),
    Apply(staged::ApplyArgs),
    Compare(compare::CompareArgs),
    Calibrate(calibrate::CalibrateArgs),
    Evaluate(evaluate::EvaluateArgs),
    Explain(explain::ExplainArgs),
    Review(review::ReviewArgs),
    Rethreshold(rethreshold::RethresholdArgs),
    Hash(hash::HashArgs),
    Seen(seen::SeenArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Answer over HTTP whether documents were seen before (with the feature serve)
    #[cfg(not(feature = "serve"))]
    Serve(AbsentArgs),
    #[cfg(feature = "serve")]
    Mcp(mcp::Args),
    /// Answer agents over the Model Context Protocol (with the feature serve)
    #[cfg(not(feature = "serve"))]
    Mcp(AbsentArgs),
    Mark(mark::MarkArgs),
    Inspect(inspect::InspectArgs),
    Upload(upload::UploadArgs),
    Plan(plan::PlanArgs),
    /// Print a shell's completion script.
    #[command(after_help = "Example: simflip completions bash > /etc/bash_completion.d/simflip")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(after_help = "Example: simflip man | man -l -")]
    Man,
}

/// The arguments of a command that this build lacks.
#[cfg(not(feature = "serve"))]
#[derive(Debug, clap::Args)]
struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

#[cfg(unix)]
impl Command {
    /// True if a signal ends it at once; a service has answers to finish.
    fn ends_by_signal(&self) -> bool {
        #[cfg(feature = "serve")]
        if let Self::Serve(_) = self {
            return false;
        }
        true
    }

    /// The message when a signal ends the command; `None` if there is nothing to say of how to resume it.
    fn farewell(&self) -> Option<&'static str> {
        match self {
            Self::Sketch(_) | Self::Join(_) | Self::Cluster(_) | Self::Apply(_) => {
                Some("ended. What was finished stays where it is; the same command goes on from there")
            }
            Self::Upload(_) => Some("ended. The result stays where it is; --force begins the upload again"),
            _ => None,
        }
    }
}

/// The arguments of `simflip dedup` in a command line, the program's name first; `None` for another command, or for
/// arguments that this program does not know.
fn dedup_of(command_line: &[String]) -> Option<dedup::DedupArgs> {
    match Cli::try_parse_from(command_line).ok()?.command {
        Command::Dedup(args) => Some(args),
        _ => None,
    }
}

/// The arguments of `simflip dedup` behind a result, by the result's command line: its own, or for `rethreshold` those
/// of the result that it took.
fn dedup_behind(command_line: &[String]) -> Option<dedup::DedupArgs> {
    match Cli::try_parse_from(command_line).ok()?.command {
        Command::Dedup(args) => Some(args),
        Command::Rethreshold(args) => args.of_result(),
        _ => None,
    }
}

/// The outcome of a command that has done its work.
enum Done {
    /// All input was read: exit code 0.
    Well,
    /// Corrupt input was skipped: exit code 1.
    WithCorruption,
}

/// Runs the program and gives its exit code: 0, 1 or 2, see above. `arguments` begin with the name of the program.
/// `--help`, and arguments that are no command line, end the process instead. The code is 0 if the reader of standard
/// output has gone.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let typed = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !simflip::corpus::panic_is_corruption() {
            usual(panic);
        }
    }));
    let (cli, options) = parse(arguments);
    if let Some(error) = refused_kernel(&simflip_core::kernel_choice()) {
        note(&harmless(&error));
        return 2;
    }
    // Not before the arguments are understood: nothing has been begun.
    #[cfg(unix)]
    if cli.command.ends_by_signal() {
        signals::clean_up_on_end(cli.command.farewell());
    }
    #[cfg(feature = "serve")]
    let is_service = matches!(cli.command, Command::Serve(_));
    let result = match cli.command {
        Command::Dedup(args) => args.run(typed),
        Command::Decontaminate(args) => args.run(typed),
        Command::Gather(args) => args.run(),
        Command::Sketch(args) => args.run(),
        Command::Join(args) => args.run(),
        Command::Cluster(args) => args.run(),
        Command::Apply(args) => args.run(),
        Command::Compare(args) => args.run(typed),
        Command::Calibrate(args) => args.run(),
        Command::Evaluate(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Review(args) => args.run(),
        Command::Rethreshold(args) => args.run(typed),
        Command::Hash(args) => args.run(),
        Command::Seen(args) => args.run(),
        #[cfg(feature = "serve")]
        Command::Serve(args) => args.run(),
        #[cfg(feature = "serve")]
        Command::Mcp(args) => args.run(),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) | Command::Mcp(_) => Err(anyhow::anyhow!(
            "serve and mcp: this build has not the feature serve; in a clone of the repository, \
             cargo install --path . --features html,serve,stores makes one that has it"
        )),
        Command::Mark(args) => args.run(),
        Command::Inspect(args) => args.run(),
        Command::Upload(args) => args.run(),
        Command::Plan(args) => args.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "simflip", &mut script);
            print(&script)
        }
        Command::Man => manual().and_then(|page| print(&page)),
    };
    match result {
        Ok(Done::Well) => 0,
        Ok(Done::WithCorruption) => 1,
        Err(error) if is_broken_pipe(&error) => 0,
        #[cfg(feature = "serve")]
        Err(error) if is_service => {
            serve::report_failure(&error_text(&error, &options));
            2
        }
        Err(error) => {
            note(&harmless(&error_text(&error, &options)));
            2
        }
    }
}

/// The error of an environment variable that names no kernels.
fn refused_kernel(choice: &simflip_core::KernelChoice) -> Option<String> {
    let refused = choice.refused.as_deref()?;
    let available = choice.available.join(", ");
    let variable = simflip_core::KERNEL_VARIABLE;
    Some(format!("{variable}={refused}: expected one of this processor's kernels, {available}"))
}

/// The command that was typed, and the names of its options, without their dashes.
fn parse(arguments: Vec<OsString>) -> (Cli, Vec<String>) {
    let command = in_groups(Cli::command());
    let mut matches =
        command.clone().try_get_matches_from(arguments).unwrap_or_else(|error| with_our_name(error).exit());
    let subcommand = matches.subcommand_name().and_then(|name| command.find_subcommand(name));
    let options = subcommand.map_or_else(Vec::new, long_options);
    let cli = Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit());
    (cli, options)
}

fn long_options(command: &clap::Command) -> Vec<String> {
    command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Deduplicate", &["dedup", "decontaminate", "seen", "serve", "mcp"]),
    ("Inspect a result", &["explain", "review", "rethreshold", "evaluate", "inspect"]),
    ("Exchange", &["gather", "mark", "upload"]),
    ("Large jobs", &["plan", "sketch", "join", "cluster", "apply"]),
    ("Methods and the shell", &["compare", "calibrate", "hash", "completions", "man", "help"]),
];

/// The program's help with its commands in [`GROUPS`].
fn in_groups(command: clap::Command) -> clap::Command {
    let about = |name: &str| match command.find_subcommand(name).and_then(clap::Command::get_about) {
        Some(about) => about.to_string(),
        None => "Print the help of a command".to_owned(),
    };
    let mut list = String::new();
    for (group, names) in GROUPS {
        list += &format!("{group}:\n");
        names.iter().for_each(|name| list += &format!("  {name:<14} {}\n", about(name)));
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template).after_help("Begin with: simflip dedup FILES --out result")
}

/// Options of other tools, and the options here that correspond to them.
const CALLED_HERE: [(&[&str], &str); 10] = [
    (&["threshold", "jaccard-threshold", "sim-threshold"], "--similarity"),
    (&["ngram", "ngrams", "ngram-size", "n-gram", "n-grams", "shingle-size"], "--features shingles:N"),
    (&["num-perm", "num-perms", "num-permutations", "num-hashes"], "--method minhash --permutations"),
    (&["num-buckets", "num-bands", "hashes-per-bucket"], "--method minhash --bands BxR"),
    (&["column", "text-column", "text-key", "content-key", "text"], "--text-field"),
    (&["id-column", "id-key", "idx-column"], "--id-field"),
    (&["output", "output-dir", "output-folder", "o"], "--out"),
    (&["num-workers", "workers", "num-proc", "jobs"], "--threads"),
    (&["hamming", "hamming-distance", "bit-diff"], "--method simhash --distance"),
    (
        &["input", "input-file", "input-dir", "path", "local"],
        "no option: the files follow the command, as in simflip dedup FILE",
    ),
];

/// An error of an option that other tools have, with what it is called here instead of the option that is spelt most
/// alike.
fn with_our_name(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = typed.trim_start_matches('-').split('=').next().unwrap_or_default().replace('_', "-");
    let called = CALLED_HERE.iter().find(|(names, _)| names.contains(&&*name)).map(|(_, called)| *called);
    if let Some(called) = called.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let tip = format!("here it is called {called}");
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The manual page, with a section for each command.
fn manual() -> anyhow::Result<Vec<u8>> {
    let command = Cli::command();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands() {
        let name = format!("simflip {}", subcommand.get_name());
        let man = clap_mangen::Man::new(subcommand.clone().name(name.clone()).bin_name(name.clone()));
        writeln!(page, ".SH {}", name.to_uppercase())?;
        man.render_description_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    Ok(page)
}

fn print(bytes: &[u8]) -> anyhow::Result<Done> {
    terminal::print(bytes)?;
    Ok(Done::Well)
}

/// Writes a line on standard error, with the program's name before it.
fn note(text: &str) {
    terminal::note(format_args!("simflip: {text}"));
}

/// Writes text on standard output, without what would give a terminal orders.
fn print_text(text: &str) -> anyhow::Result<Done> {
    print(harmless(text).as_bytes())
}

/// Writes a value as JSON on standard output, without what would give a terminal orders.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<Done> {
    print((printable_json(&serde_json::to_string_pretty(value)?).into_owned() + "\n").as_bytes())
}

/// Lines of text in which nothing gives the terminal orders, whatever names of the input are in them.
fn harmless(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// The text of an error with its causes, save causes that the text before ends with. A parameter of the library's
/// that is one of the command's `options` is named as it is typed, with dashes.
fn error_text(error: &anyhow::Error, options: &[String]) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let parameter = match (cause.downcast_ref::<Error>(), cause.downcast_ref()) {
            (Some(error), _) => error.parameter_name(),
            (_, Some(simflip_core::Error::Parameter { parameter, .. })) => Some(*parameter),
            _ => None,
        };
        let cause = match parameter {
            Some(parameter) if options.iter().any(|option| option == parameter) => format!("--{cause}"),
            _ => cause.to_string(),
        };
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// True if the reader of standard output has gone, which is not a failure. Files and stores fail by errors of the
/// library, even where a pipe to them broke.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::corpus::JsonlFields;
    use simflip::evaluate::interval::Bootstrap;
    use simflip::evaluate::truth::TruthParams;
    use simflip::settings::{Settings, USUAL_KEY_RECALL, USUAL_RECALL, USUAL_SIMILARITY};
    use simflip::weight::Weighting;

    #[test]
    fn causes_are_reported_once() {
        let missing = || Error::io("documents.wet", io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error_text(&missing().into(), &[]), missing().to_string());
        let context = anyhow::Error::from(missing()).context("reading");
        assert_eq!(error_text(&context, &[]), format!("reading: {}", missing()));
    }

    #[test]
    fn a_parameter_is_named_as_it_is_typed() {
        let wrong = || anyhow::Error::from(Error::parameter("distance", 99, "at most 15 of 64 bits"));
        let (_, options) = parse(["simflip", "plan"].map(OsString::from).to_vec());
        assert_eq!(error_text(&wrong(), &options), "--distance 99: expected at most 15 of 64 bits");
        assert_eq!(error_text(&wrong(), &[]), "distance 99: expected at most 15 of 64 bits");
    }

    #[test]
    fn the_help_names_the_defaults_that_the_library_has() {
        let usual = Settings::default();
        let defaults = [
            ("features", usual.features.to_string()),
            ("weighting", Weighting::Binary.name().to_owned()),
            ("recall", format!("{USUAL_RECALL}; both {USUAL_KEY_RECALL}")),
            ("similarity", USUAL_SIMILARITY.to_string()),
            (
                "permutations",
                Settings::minhash(USUAL_SIMILARITY).minhash_params().unwrap().permutations.to_string(),
            ),
            ("min-label", TruthParams::default().min_label.to_string()),
            ("resamples", Bootstrap::default().resamples.to_string()),
            ("text-field", JsonlFields::default().text),
        ];
        let command = Cli::command();
        for (option, default) in defaults {
            let of = |command: &'_ clap::Command| {
                let name = command.get_name().to_owned();
                let arguments: Vec<clap::Arg> = command.get_arguments().cloned().collect();
                arguments.into_iter().map(move |argument| (name.clone(), argument))
            };
            let described = command.get_subcommands().flat_map(of);
            let mut described = described.filter(|(_, it)| it.get_long() == Some(option)).peekable();
            assert!(described.peek().is_some(), "--{option}");
            // A result has a threshold of its own.
            let has_own = |command: &str| command == "rethreshold" && option == "similarity";
            for (command, argument) in described.filter(|(command, it)| {
                !it.is_required_set() && it.get_default_values().is_empty() && !has_own(command)
            }) {
                let default = match (option, &*command) {
                    // An index of seen pages misses nothing unless it is asked to.
                    ("recall", "seen" | "serve") => "1, exact".to_owned(),
                    // A plan has a recall of probes alone.
                    ("recall", "plan") => USUAL_RECALL.to_string(),
                    _ => default.clone(),
                };
                let help = argument
                    .get_long_help()
                    .or(argument.get_help())
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(help.contains(&format!("[default: {default}]")), "--{option}: {help}");
            }
        }
    }

    #[test]
    fn options_of_other_tools_are_answered_with_ours() {
        let output = |typed: &str| {
            let typed = ["simflip", "dedup", "a", "--out", "b"].into_iter().chain(typed.split(' '));
            with_our_name(Cli::command().try_get_matches_from(typed).unwrap_err()).to_string()
        };
        for (typed, ours) in [
            ("--threshold 0.7", "--similarity"),
            ("--threshold=0.7", "--similarity"),
            ("--ngram_size 5", "--features shingles:N"),
            ("--num-perm 128", "--permutations"),
            ("--column body", "--text-field"),
            ("--output c", "--out"),
            ("--input c", "the files follow the command"),
        ] {
            let output = output(typed);
            assert!(output.contains(&format!("called {ours}")) || output.contains(ours), "{output}");
            assert_eq!(output.matches("tip:").count(), 1, "{output}");
        }
        assert!(output("--simularity 0.7").contains("'--similarity'"));
        // What is named is there.
        let dedup = Cli::command().find_subcommand("dedup").unwrap().clone();
        let options = long_options(&dedup);
        for (names, called) in CALLED_HERE {
            let named = called.split(' ').filter_map(|word| word.strip_prefix("--"));
            assert!(named.into_iter().all(|option| options.iter().any(|it| it == option)), "{called}");
            assert!(names.iter().all(|name| !options.iter().any(|it| it == name)), "{names:?}");
        }
    }

    #[test]
    fn the_help_fits_a_screen_and_names_every_command_once() {
        let help = in_groups(Cli::command()).render_help().to_string();
        assert!(help.lines().count() <= 45 && help.lines().all(|line| line.chars().count() <= 100), "{help}");
        for command in Cli::command().get_subcommands().map(clap::Command::get_name).chain(["help"]) {
            let lines = help.lines().filter(|line| line.starts_with(&format!("  {command} ")));
            assert_eq!(lines.count(), 1, "{command}: {help}");
        }
        let mut dedup = Cli::command().find_subcommand("dedup").unwrap().clone();
        let (short, long) = (dedup.render_help().to_string(), dedup.render_long_help().to_string());
        assert!(short.lines().count() <= 40, "{short}");
        let options = |help: &str| help.matches("\n      --").count() + help.matches("\n  -").count();
        // Twelve of what a run does, --force, --quiet and --help; and four examples.
        assert!(options(&short) <= 15 && options(&long) > 45, "{} {}", options(&short), options(&long));
        let examples = short.split_once("\nExamples:\n").unwrap().1;
        assert_eq!(examples.lines().take_while(|line| line.contains("simflip dedup ")).count(), 4, "{short}");
    }

    #[test]
    fn an_option_is_described_in_one_sentence() {
        let command = Cli::command();
        let options = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let options = options.filter(|argument| !argument.is_positional());
        let help = |option: &clap::Arg| option.get_long_help().or(option.get_help()).unwrap().to_string();
        let is_one = |help: &String| !help.ends_with('.') && !help.contains(". ") && !help.contains("\n\n");
        let wrong: Vec<_> = options.map(help).filter(|help| !is_one(help)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
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
                page.contains(&format!("SIMFLIP {}", command.get_name().to_uppercase())),
                "{}",
                command.get_name()
            );
        }
    }
}
