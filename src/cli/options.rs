//! Options as keywords, for a program that has no command line, such as the Python package: the same names, the same
//! defaults, and the same messages. Options are given as they are typed, such as `--similarity=0.7`.

use super::arguments::{CheckArgs, FeatureArgs, Given, GroupArgs, MethodName, SearchArgs, threads};
use super::dedup::{self, DedupArgs};
use super::evaluate::EvaluateArgs;
pub use super::index::Opened as OfSeen;
use super::index::{self, IndexArgs};
use super::rethreshold::RethresholdArgs;
use super::{CALLED_HERE, Cli, error_text, explain, long_options, seen};
use clap::{Args, CommandFactory, Parser};
use simflip::pipeline::Job;
use simflip::report::explanation::Methods;
use simflip::settings::Settings;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// The error of something that was refused or failed, in the command line's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The message, without the program's name before it.
    pub text: String,
    /// The kind of the operating system's error that caused it, `NotFound` for an input that is not there; `None` if
    /// none did.
    pub io: Option<io::ErrorKind>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
        Self { text: error_text(error, options), io: error.chain().find_map(kind) }
    }

    fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        // What follows tells how to type a command.
        let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
        Self { text: text[..end.unwrap_or(text.len())].trim_end().to_owned(), io: None }
    }
}

/// An error of the library's in the words of the command line: a parameter that is an option of `simflip dedup` is
/// named as it is typed.
pub fn refused(error: simflip::Error) -> Refused {
    refused_by::<DedupArgs>(error.into())
}

/// The arguments of a run over texts in memory ([`of_texts`]).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfTexts {
    /// The settings that decide the result.
    pub settings: Settings,
    /// A file of document frequencies to use instead of the texts' own.
    pub frequencies: Option<PathBuf>,
    /// The number of threads; 0 for one per core.
    pub threads: usize,
}

/// Options without a command before them.
#[derive(Debug, Parser)]
#[command(name = "simflip", no_binary_name = true, disable_help_flag = true)]
struct Options<A: Args> {
    #[command(flatten)]
    args: A,
}

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
struct ExplainSettings {
    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    features: FeatureArgs,
}

/// The settings of a run over texts, from the options of `simflip dedup` that do not speak of files of documents.
///
/// # Errors
/// For options that are unknown, have no meaning, or would change nothing.
pub fn of_texts(options: &[OsString]) -> Result<OfTexts, Refused> {
    let args: TextArgs = parsed(options)?;
    let given = Given {
        check: Some(&args.check),
        groups: Some(&args.groups),
        all_pairs: args.all_pairs,
        ..Given::new(&args.search, &args.features)
    };
    let settings = given.settings(args.method, &args.search.said(args.method)).and_then(|settings| {
        settings.check()?;
        Ok(settings)
    });
    let settings = settings.map_err(refused_by::<TextArgs>)?;
    Ok(OfTexts { settings, frequencies: args.features.frequencies, threads: args.threads })
}

/// The settings by which a pair of texts is explained, and a file of document frequencies if one is named. The options
/// are those of `simflip explain` that speak of settings.
///
/// # Errors
/// As [`of_texts`].
pub fn of_explanation(options: &[OsString]) -> Result<(Methods, Option<PathBuf>), Refused> {
    let args: ExplainSettings = parsed(options)?;
    let methods =
        explain::methods(&args.search, &args.check, &args.features).map_err(refused_by::<ExplainSettings>)?;
    Ok((methods, args.features.frequencies))
}

/// The job of `simflip dedup` with these arguments, those that stand behind `dedup` in its command line. The caller
/// adds the command line that the report notes ([`Job::command_line`]).
///
/// # Errors
/// As [`of_texts`], or if a report whose settings are asked for cannot be read.
pub fn of_files(arguments: &[OsString]) -> Result<Job, Refused> {
    parsed::<DedupArgs>(arguments)?.job(Vec::new()).map_err(refused_by::<DedupArgs>)
}

/// Two jobs for `simflip rethreshold` with these arguments: that by which the result was made, and the new one.
///
/// # Errors
/// As [`of_files`].
pub fn of_rethreshold(arguments: &[OsString]) -> Result<[Job; 2], Refused> {
    parsed::<RethresholdArgs>(arguments)?.jobs(Vec::new()).map_err(refused_by::<RethresholdArgs>)
}

/// The scores of `simflip evaluate` with these arguments, as its `--json` prints them.
///
/// # Errors
/// As [`of_texts`], or if a file that is named cannot be read or does not fit.
pub fn evaluation(arguments: &[OsString]) -> Result<serde_json::Value, Refused> {
    let scores = parsed::<EvaluateArgs>(arguments)?.scores();
    scores.and_then(|scores| Ok(serde_json::to_value(&scores)?)).map_err(refused_by::<EvaluateArgs>)
}

/// Opens the index of `simflip seen` with these options, to ask only if `read_only` is true, else to write. Its notes
/// are not printed.
///
/// # Errors
/// As [`of_texts`]; if the index was made with other settings than those that are given, cannot be opened, or
/// another process writes to it.
pub fn of_seen(options: &[OsString], read_only: bool) -> Result<OfSeen, Refused> {
    parsed::<IndexArgs>(options)?.open_silently(read_only).map_err(refused_by::<IndexArgs>)
}

/// Parses the age from which on pages of an index expire, such as 30d.
///
/// # Errors
/// If it is no length of time, or less than a millisecond.
pub fn age(text: &str) -> Result<Duration, Refused> {
    index::age(text).map_err(|error| Refused { text: format!("{text}: {error}"), io: None })
}

/// Parses a time as options have it, such as 2026-11-01 or 2026-11-01T12:00:00Z: milliseconds since 1970.
///
/// # Errors
/// If the text is no such time.
pub fn time(text: &str) -> Result<u64, Refused> {
    let time = seen::time_of(text).map_err(|error| Refused { text: format!("{text}: {error}"), io: None })?;
    Ok(index::millis(time))
}

/// The text of a time in milliseconds since 1970, as answers have it (RFC 3339, to the millisecond).
pub fn written_time(millis: u64) -> String {
    index::written(millis)
}

/// The present time as reports have it: RFC 3339, to the second.
pub fn now() -> String {
    dedup::now()
}

fn parsed<A: Args>(arguments: &[OsString]) -> Result<A, Refused> {
    let parsed = Options::try_parse_from(arguments);
    parsed.map(|Options { args }| args).map_err(|error| Refused::usage(&super::with_our_name(error)))
}

/// An error in the words of a command with these options.
fn refused_by<A: Args>(error: anyhow::Error) -> Refused {
    Refused::new(&error, &long_options(&Options::<A>::command()))
}

/// Options of all commands, each with the values that it knows; none for one that takes no value.
static KNOWN: LazyLock<HashMap<String, Option<Vec<String>>>> = LazyLock::new(|| {
    let mut known: HashMap<String, Option<Vec<String>>> = HashMap::new();
    for argument in Cli::command().get_subcommands().flat_map(clap::Command::get_arguments) {
        let Some(name) = argument.get_long() else { continue };
        let values = argument.get_possible_values();
        let values = values.iter().map(|value| value.get_name().to_owned());
        let takes_value = argument.get_action().takes_values();
        let entry = known.entry(name.to_owned()).or_default();
        if takes_value {
            entry.get_or_insert_default().extend(values);
        }
    }
    known
});

/// The keyword here for one of another tool, such as `similarity` for `jaccard_threshold`; `None` if none is known.
/// `of_texts` is true for a run over texts in memory, which names columns otherwise than a run over files.
pub fn called_here(name: &str, of_texts: bool) -> Option<String> {
    let name = name.replace('_', "-");
    let (_, called) = CALLED_HERE.iter().find(|(names, _)| names.contains(&&*name))?;
    Some(match *called {
        "--text-field" if of_texts => "column".to_owned(),
        called if called.starts_with("no option") => "data, the first argument".to_owned(),
        called => as_keywords(called),
    })
}

/// A message in the words of keywords: `--keep-each host` becomes `keep_each="host"`, and a flag `all_pairs=True`. What
/// stands in a command, from `simflip` and its name to the end of the clause, stays as it is typed.
pub fn as_keywords(reported: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(reported.len()), reported);
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        text += before;
        let length =
            option[2..].find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(option.len() - 2);
        let (name, behind) = option[2..].split_at(length);
        let is_word = !text.ends_with(|c: char| c.is_alphanumeric() || "-/.".contains(c));
        if name.is_empty() || name.starts_with('-') || !is_word || is_in_command(&text) {
            text += &option[..2 + length];
            rest = behind;
            continue;
        }
        let keyword = name.replace('-', "_");
        let takes = KNOWN.get(name);
        let value = match takes {
            Some(None) => None,
            // What was given, at the head of a message.
            Some(Some(_)) if text.is_empty() && behind.starts_with(' ') => behind[1..]
                .split_once(": expected")
                .map(|(value, _)| value)
                .or_else(|| value_of(name, behind)),
            _ => value_of(name, behind),
        };
        rest = match (behind.strip_prefix(" <"), value) {
            (Some(placeholder), _) => placeholder.split_once('>').map_or("", |(_, rest)| rest),
            (None, Some(value)) => &behind[1 + value.len()..],
            (None, None) => behind,
        };
        text += &match value {
            Some(value) if value.parse::<f64>().is_ok() || value.chars().all(|c| c.is_ascii_uppercase()) => {
                format!("{keyword}={value}")
            }
            Some(value) => format!("{keyword}={value:?}"),
            None if takes == Some(&None) && !text.ends_with('\'') => format!("{keyword}=True"),
            None => keyword,
        };
    }
    text + rest
}

fn value_of<'t>(name: &str, behind: &'t str) -> Option<&'t str> {
    let word = behind.strip_prefix([' ', '='])?;
    let word =
        word.split(char::is_whitespace).next()?.trim_end_matches([',', '.', ';', ':', ')', '\'', '"', '`']);
    let known = KNOWN.get(name)?.as_deref()?;
    let is_name = || word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    let is_form = || word.contains([':', '|']) || word.starts_with(|c: char| c.is_ascii_digit());
    let of_keep = || ["fullest", "longest", "first", "shortest-url", "input-order"].contains(&word);
    let is_value = behind.starts_with('=') || is_form() || is_name() || name == "keep" && of_keep();
    (is_value || known.iter().any(|value| value == word)).then_some(word)
}

/// True if a text ends within a command of the program.
fn is_in_command(text: &str) -> bool {
    let clause = [". ", ": ", "; ", ", ", " ("].iter().filter_map(|mark| text.rfind(mark)).max().unwrap_or(0);
    text[clause..].split_once("simflip ").is_some_and(|(_, rest)| {
        let name = rest.split(' ').next().unwrap_or_default();
        Cli::command().find_subcommand(name).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use simflip::search::psm::FlippedBits;
    use simflip::settings::{Generator, PAPER_DISTANCE};

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
            let job = of_files(&options(&format!("{typed} --out=r documents.jsonl"))).unwrap();
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
            assert_eq!(short.generator.name(), search);
        }
        let paper = "--method=psm --features=words --weighting=tf-idf --verify=none";
        assert_eq!(settings(paper), Settings::paper());
        let generator = settings("--method=psm --index=all-bits").generator;
        assert!(
            matches!(
                generator,
                Generator::Psm { distance: PAPER_DISTANCE, flipped_bits: FlippedBits::All { .. }, .. }
            ),
            "{generator:?}"
        );
    }

    #[test]
    fn refusals_have_the_command_line_s_words_and_no_usage() {
        let reported = |typed| of_texts(&options(typed)).unwrap_err().text;
        assert_eq!(
            reported("--method=simhash --distance=99"),
            "--distance 99: expected at most 15 of 64 bits; farther hashes are alike by chance"
        );
        assert!(
            reported("--method=nonsense").starts_with("invalid value 'nonsense' for '--method <METHOD>'")
        );
        assert!(reported("--weighting=tf").starts_with("--weighting has no effect with --method both: "));
        for typed in ["--method=nonsense", "--nonsense=1", "--seed=x"] {
            let reported = reported(typed);
            assert!(!reported.contains("Usage") && !reported.contains("--help"), "{reported}");
        }
        let missing = of_files(&options("--settings=no-such-file --out=r documents.jsonl")).unwrap_err();
        assert_eq!(missing.io, Some(io::ErrorKind::NotFound), "{missing}");
    }

    #[test]
    fn options_become_keywords_and_commands_stay() {
        for (reported, ours) in [
            ("--keep-each host", "keep_each=\"host\""),
            ("try --preset noisy.", "try preset=\"noisy\"."),
            ("--distance 99: expected at most 15 of 64 bits", "distance=99: expected at most 15 of 64 bits"),
            ("--keep a b: expected first", "keep=\"a b\": expected first"),
            ("leave --max-removed out", "leave max_removed out"),
            ("--all-pairs alone", "all_pairs=True alone"),
            ("with --keep score:FIELD, not", "with keep=\"score:FIELD\", not"),
            ("--keep longest or --similarity 0.9;", "keep=\"longest\" or similarity=0.9;"),
            ("invalid value 'x' for '--method <METHOD>'", "invalid value 'x' for 'method'"),
            ("unexpected argument '--no-such' found", "unexpected argument 'no_such' found"),
            ("'--all-pairs'", "'all_pairs'"),
            ("--method minhash --bands BxR", "method=\"minhash\" bands BxR"),
            (
                "run simflip cluster --clusters star, with --force",
                "run simflip cluster --clusters star, with force=True",
            ),
            ("a--b, ./--seed and -- are not options", "a--b, ./--seed and -- are not options"),
        ] {
            assert_eq!(as_keywords(reported), ours);
        }
        assert_eq!(called_here("num_perm", true).as_deref(), Some("method=\"minhash\" permutations"));
        assert_eq!(called_here("text_column", true).as_deref(), Some("column"));
        assert_eq!(called_here("text_column", false).as_deref(), Some("text_field"));
        assert_eq!(called_here("path", true).as_deref(), Some("data, the first argument"));
        assert_eq!(called_here("similarity", true), None);
    }

    /// The literals of a source file, as far as they are text, without its tests.
    fn literals(source: &str) -> Vec<String> {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let mut all = Vec::new();
        for line_or_more in source
            .split("\n")
            .map(str::trim_start)
            .filter(|line| !line.starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n")
            .split('"')
            .skip(1)
            .step_by(2)
        {
            all.push(line_or_more.replace("\\\n", ""));
        }
        all
    }

    #[test]
    fn no_message_speaks_of_options_once_it_has_keywords() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![root.join("src"), root.join("core/src"), root.join("python/src")];
        let (mut seen, mut left) = (0, Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    for text in literals(&std::fs::read_to_string(&path).unwrap()) {
                        // Arguments that are put together, and examples of help, are no messages.
                        if !text.contains(" --") && !text.starts_with("--") || text.starts_with("Example") {
                            continue;
                        }
                        seen += 1;
                        let ours = as_keywords(&text);
                        let mut options = ours.match_indices("--").map(|(at, _)| &ours[..at]);
                        if options.any(|before| before.ends_with([' ', '(', '\'']) && !is_in_command(before))
                        {
                            left.push(format!("{}: {ours}", path.display()));
                        }
                    }
                }
            }
        }
        assert!(seen > 80 && left.is_empty(), "{seen} {left:#?}");
    }
}
