//! `simflip compare`

use super::arguments::{
    CheckArgs, FeatureArgs, Given, GroupArgs, InputArgs, MethodName, RunArgs, SearchArgs, name_of,
};
use super::dedup::job;
use super::progress::Bars;
use super::{Done, print_text};
use simflip::display::printable_path;
use simflip::pipeline::{self, Contender};
use simflip::settings::Sketches;

/// Compare methods on one corpus: pairs, recall and speed.
///
/// psm, dial and bphs run as searches of the paper's hashes, if nothing else is asked for: words weighted by tf-idf,
/// pairs within 3 bits, and no check. The other methods run as `dedup` runs them. Each is held against an exact answer:
/// SimHashes against an exact join of the same hashes, MinHash and both against counted Jaccard coefficients of a
/// sample of documents with all others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  simflip compare crawl/*.warc.wet.gz --out comparison
  simflip compare crawl --out comparison --methods psm,dial,bphs --distance 4 --recall 0.9
  simflip compare crawl --out comparison --methods bphs,minhash --features shingles:5 --weighting binary --similarity 0.7

Exit code: 0 done; 1 done, but corrupt input was skipped; 2 failed.")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    run: RunArgs,

    /// The methods, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MethodName::Psm, MethodName::Bphs, MethodName::Minhash])]
    methods: Vec<MethodName>,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    check: CheckArgs,

    #[command(flatten)]
    groups: GroupArgs,

    #[command(flatten)]
    features: FeatureArgs,
}

impl CompareArgs {
    /// Runs the command. Its report notes `command_line`, the words that were typed.
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        let names: Vec<String> = self.methods.iter().map(name_of).collect();
        let given = Given {
            check: Some(&self.check),
            groups: Some(&self.groups),
            as_published: true,
            saves_frequencies: self.run.save_frequencies.is_some(),
            ..Given::new(&self.search, &self.features)
        };
        let mut all = given.settings_of_all(&self.methods, &format!("with --methods {}", names.join(",")))?;
        // Documents are read once for all of one kind of features, and SimHash keeps its hash.
        let hashes: Vec<_> = all
            .iter()
            .filter(|settings| matches!(settings.sketches, Sketches::SimHash { .. }))
            .map(|settings| (settings.features, settings.feature_hash))
            .collect();
        for settings in &mut all {
            if let Some((_, hash)) = hashes.iter().find(|(features, _)| *features == settings.features) {
                settings.feature_hash = *hash;
            }
        }
        let contenders: Vec<Contender> = names
            .iter()
            .zip(&all)
            .map(|(label, settings)| Contender { label: label.clone(), settings: settings.clone() })
            .collect();
        let settings = all.into_iter().next().unwrap_or_default();
        let frequencies = self.features.frequencies.clone();
        let job = job(&self.input, &self.run, settings, frequencies, command_line)?;
        let summary = pipeline::compare(&job, &contenders, &Bars::new(self.run.quiet))?;
        print_text(&format!("{}\n{}\n", summary.text, printable_path(&job.out.join("report.html"))))?;
        Ok(if summary.corrupt > 0 { Done::WithCorruption } else { Done::Well })
    }
}
