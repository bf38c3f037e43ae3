//! What options mean, for a program that has them as keywords of its own and not as a command line: the same
//! names, the same defaults, and the same words where one is refused.

use super::arguments::{CheckArgs, FeatureArgs, Given, GroupArgs, MethodName, SearchArgs, threads};
use super::index::{self, IndexArgs, Opened};
use super::{dedup, evaluate, explain, seen, told};
use clap::{CommandFactory, Parser};
use simflip::pipeline::Job;
use simflip::report::explanation::Methods;
use simflip::seen::Seen;
use simflip::settings::Settings;
use simflip::weight::frequencies::Frequencies;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why something was refused or failed, in the command line's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The words, without the program's name before them.
    pub told: String,
    /// What the operating system said, if it was that which refused.
    pub io: Option<io::ErrorKind>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    fn new(error: &anyhow::Error, options: &[String]) -> Self {
        let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
            Some(simflip::Error::Io { source, .. }) => Some(source.kind()),
            Some(simflip::Error::NoSuchInput(_)) => Some(io::ErrorKind::NotFound),
            _ => cause.downcast_ref::<io::Error>().map(io::Error::kind),
        };
        Self { told: told(error, options), io: error.chain().find_map(kind) }
    }

    fn usage(error: &clap::Error) -> Self {
        let told = error.render().to_string();
        let told = told.strip_prefix("error: ").unwrap_or(&told);
        // What follows tells how to type a command.
        let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| told.find(mark)).min();
        Self { told: told[..end.unwrap_or(told.len())].trim_end().to_owned(), io: None }
    }
}

/// An error of the library's, in the words of the command line, which has parameters for options.
pub fn refused(error: simflip::Error) -> Refused {
    Refused::new(&error.into(), &options_of::<super::Cli>(Some("dedup")))
}

/// What is asked of texts in memory.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfTexts {
    /// What decides the result.
    pub settings: Settings,
    /// A file of document frequencies to use instead of the texts' own.
    pub frequencies: Option<PathBuf>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

#[derive(Debug, Parser)]
#[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
struct TextArgs {
    #[arg(long, value_enum, default_value_t = MethodName::Both)]
    method: MethodName,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    groups: GroupArgs,

    #[arg(long)]
    all_pairs: bool,

    #[command(flatten)]
    features: FeatureArgs,

    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,
}

#[derive(Debug, Parser)]
#[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
struct ExplainArgs {
    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    features: FeatureArgs,
}

/// The settings of a run over texts, from options such as `--similarity=0.7`: those of `simflip dedup` that
/// speak of no file of pages.
///
/// # Errors
/// For options that are unknown, have no meaning, or would change nothing.
pub fn of_texts(options: &[OsString]) -> Result<OfTexts, Refused> {
    let args: TextArgs = parsed(options)?;
    let given = Given {
        search: &args.search,
        features: &args.features,
        check: Some(&args.check),
        groups: Some(&args.groups),
        as_published: false,
        all_pairs: args.all_pairs,
        saves_frequencies: false,
    };
    let settings = given.settings(args.method, &args.search.said(args.method)).and_then(|settings| {
        settings.check()?;
        Ok(settings)
    });
    let settings = settings.map_err(|error| Refused::new(&error, &options_of::<TextArgs>(None)))?;
    Ok(OfTexts { settings, frequencies: args.features.frequencies, threads: args.threads })
}

/// The settings by which a pair of texts is explained, and a file of document frequencies if one is named.
///
/// # Errors
/// As [`of_texts`].
pub fn of_explanation(options: &[OsString]) -> Result<(Methods, Option<PathBuf>), Refused> {
    let args: ExplainArgs = parsed(options)?;
    let methods = explain::methods(&args.search, &args.check, &args.features)
        .map_err(|error| Refused::new(&error, &options_of::<ExplainArgs>(None)))?;
    Ok((methods, args.features.frequencies))
}

/// The job of `simflip dedup` with these arguments; they begin with what stands behind `dedup`.
///
/// # Errors
/// As [`of_texts`], or if a report whose settings are asked for cannot be read.
pub fn of_files(arguments: &[OsString]) -> Result<Job, Refused> {
    #[derive(Debug, Parser)]
    #[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
    struct Dedup {
        #[command(flatten)]
        dedup: dedup::Args,
    }
    let args: Dedup = parsed(arguments)?;
    args.dedup.job(Vec::new()).map_err(|error| Refused::new(&error, &options_of::<Dedup>(None)))
}

/// The scores of `simflip evaluate` with these arguments, as its `--json` prints them.
///
/// # Errors
/// As [`of_texts`], or if a file that is named cannot be read or does not fit.
pub fn evaluation(arguments: &[OsString]) -> Result<serde_json::Value, Refused> {
    #[derive(Debug, Parser)]
    #[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
    struct Evaluate {
        #[command(flatten)]
        evaluate: evaluate::Args,
    }
    let args: Evaluate = parsed(arguments)?;
    let scores = args.evaluate.scores().and_then(|scores| Ok(serde_json::to_value(&scores)?));
    scores.map_err(|error| Refused::new(&error, &options_of::<Evaluate>(None)))
}

/// An open index of seen pages.
#[derive(Debug)]
#[non_exhaustive]
pub struct OfSeen {
    /// The index; what there is to say of how it was opened is in its notes.
    pub seen: Seen,
    /// The document frequencies that its sketches are weighed by; empty ones if it has none.
    pub frequencies: Arc<Frequencies>,
    /// Pages last seen longer ago than this are stale.
    pub fresh: Option<Duration>,
}

/// Opens the index of `simflip seen` with these options, to ask alone or to write.
///
/// # Errors
/// As [`of_texts`]; if the index was made with other settings than those that are given, cannot be opened, or
/// another process writes to it.
pub fn of_seen(options: &[OsString], ask_only: bool) -> Result<OfSeen, Refused> {
    #[derive(Debug, Parser)]
    #[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
    struct Seen {
        #[command(flatten)]
        index: IndexArgs,
    }
    let Seen { index } = parsed(options)?;
    let opened = index.open_silently(ask_only);
    let Opened { seen, frequencies } =
        opened.map_err(|error| Refused::new(&error, &options_of::<Seen>(None)))?;
    Ok(OfSeen { seen, frequencies, fresh: index.fresh })
}

/// Parses the age from which on pages expire, such as 30d.
///
/// # Errors
/// If it is no length of time, or 0.
pub fn age(text: &str) -> Result<Duration, Refused> {
    index::age(text).map_err(|error| Refused { told: format!("{text}: {error}"), io: None })
}

/// A time as options have it, such as 2026-11-01 or 2026-11-01T12:00:00Z, in milliseconds since 1970.
///
/// # Errors
/// If it is none.
pub fn time(text: &str) -> Result<u64, Refused> {
    let time = seen::time_of(text).map_err(|error| Refused { told: format!("{text}: {error}"), io: None })?;
    Ok(index::millis(time))
}

/// A time in milliseconds since 1970, as answers have it (RFC 3339).
pub fn written_time(millis: u64) -> String {
    index::written(millis)
}

/// The time, as reports have it: RFC 3339, to the second.
pub fn now() -> String {
    dedup::now()
}

fn parsed<T: Parser>(arguments: &[OsString]) -> Result<T, Refused> {
    let parse = || {
        let mut matches = T::command().try_get_matches_from(arguments)?;
        T::from_arg_matches_mut(&mut matches)
    };
    parse().map_err(|error: clap::Error| Refused::usage(&super::with_our_name(error)))
}

/// The long options of a command.
fn options_of<T: CommandFactory>(subcommand: Option<&str>) -> Vec<String> {
    let command = T::command();
    let command = subcommand.and_then(|name| command.find_subcommand(name)).unwrap_or(&command);
    command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::search::psm::Reading;
    use simflip::settings::{Net, PAPER_DISTANCE};

    fn options(typed: &str) -> Vec<OsString> {
        typed.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn settings_are_those_of_the_command_line() {
        assert_eq!(of_texts(&[]).unwrap().settings, Settings::default());
        for typed in [
            "",
            "--preset=removable",
            "--preset=noisy",
            "--method=minhash --similarity=0.7 --bands=16x8",
            "--method=simhash --search=dial --distance=6 --recall=0.99 --clusters=star --keep=longest --all-pairs",
            "--method=psm --features=words --weighting=tf-idf --verify=none --seed=7",
        ] {
            let job = of_files(&options(&format!("{typed} --out=r pages.jsonl"))).unwrap();
            assert_eq!(of_texts(&options(typed)).unwrap().settings, job.settings, "{typed}");
        }
    }

    #[test]
    fn methods_run_the_searches_whose_names_they_have() {
        let settings = |typed: &str| of_texts(&options(typed)).unwrap().settings;
        for search in ["psm", "dial", "bphs"] {
            let short = settings(&format!("--method={search}"));
            assert_eq!(short, settings(&format!("--method=simhash --search={search}")));
            assert_eq!(short, settings(&format!("--method={search} --search={search}")));
            assert_eq!(short.net.name(), search);
        }
        let paper = "--method=psm --features=words --weighting=tf-idf --verify=none";
        assert_eq!(settings(paper), Settings::paper());
        let net = settings("--method=psm --index=all-bits").net;
        assert!(
            matches!(net, Net::Psm { distance: PAPER_DISTANCE, reading: Reading::X { .. }, .. }),
            "{net:?}"
        );
    }

    #[test]
    fn refusals_have_the_command_line_s_words_and_no_usage() {
        let told = |typed| of_texts(&options(typed)).unwrap_err().told;
        assert_eq!(
            told("--method=simhash --distance=99"),
            "--distance 99: expected at most 15 of 64 bits; farther hashes are alike by chance"
        );
        assert!(told("--method=nonsense").starts_with("invalid value 'nonsense' for '--method <METHOD>'"));
        assert!(told("--weighting=tf").starts_with("--weighting has no effect with --method both: "));
        for typed in ["--method=nonsense", "--nonsense=1", "--seed=x"] {
            let told = told(typed);
            assert!(!told.contains("Usage") && !told.contains("--help"), "{told}");
        }
        let missing = of_files(&options("--settings=no-such-file --out=r pages.jsonl")).unwrap_err();
        assert_eq!(missing.io, Some(io::ErrorKind::NotFound), "{missing}");
    }
}
