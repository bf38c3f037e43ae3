//! `flipside compare`

use super::arguments::{
    CheckArgs, FeatureArgs, Given, GroupArgs, InputArgs, MethodName, RunArgs, SearchArgs,
};
use super::dedup::job;
use super::progress::Bars;
use super::{Done, tell};
use flipside::pipeline::{self, Contender};
use flipside::settings::{PAPER_DISTANCE, Sketches};
use flipside::wording::printable_path;

/// Run several methods on the same pages and report what each found, side by side.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  flipside compare crawl/*.warc.wet.gz --out comparison
  flipside compare crawl --out comparison --methods bphs,minhash --distance 6 --similarity 0.7

Exit code: 0 done; 1 done, but damaged input was skipped; 2 failed.")]
pub(crate) struct Args {
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

impl Args {
    pub(crate) fn run(self, command_line: Vec<String>) -> anyhow::Result<Done> {
        let mut search = self.search;
        if self.methods.iter().any(|method| matches!(method, MethodName::Psm | MethodName::Bphs)) {
            // Pairs of one distance are compared with pairs of the same.
            search.distance.get_or_insert(PAPER_DISTANCE);
        }
        let names: Vec<&str> = self.methods.iter().map(|method| method.name()).collect();
        let given = Given {
            search: &search,
            features: &self.features,
            check: Some(&self.check),
            groups: Some(&self.groups),
            all_pairs: false,
            saves_frequencies: self.run.save_frequencies.is_some(),
        };
        let mut all = given.settings_of_all(&self.methods, &format!("with --methods {}", names.join(",")))?;
        // Pages are read once for all of them, and SimHash keeps its hash.
        let hash = match all.iter().find(|settings| matches!(settings.sketches, Sketches::SimHash { .. })) {
            Some(settings) => settings.feature_hash,
            None => all.first().map(|settings| settings.feature_hash).unwrap_or_default(),
        };
        all.iter_mut().for_each(|settings| {
            settings.feature_hash = hash;
            settings.keep = settings.judge.usual_keep();
        });
        let contenders: Vec<Contender> = names
            .iter()
            .zip(&all)
            .map(|(&label, settings)| Contender { label: label.to_owned(), settings: settings.clone() })
            .collect();
        let settings = all.into_iter().next().unwrap_or_default();
        let frequencies = self.features.frequencies.clone();
        let job = job(&self.input, &self.run, settings, frequencies, command_line);
        let summary = pipeline::compare(&job, &contenders, &Bars::new(self.run.quiet))?;
        tell(&format!("{}\n{}\n", summary.text, printable_path(&job.out.join("report.html"))))?;
        Ok(if summary.damaged > 0 { Done::WithDamage } else { Done::Well })
    }
}
