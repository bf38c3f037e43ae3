//! Time per query against the number of stored hashes, with the growth fitted (Figure 7).

use crate::check::{Finding, Verdict};
use crate::config::{self, Size};
use crate::corpus::Corpus;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::results::{Row, Table, described, distinct};
use crate::throughput::{Bench, Method, Searches, Workload};
use crate::{Experiment, Options};
use anyhow::Result;
use serde::Deserialize;
use simflip::text::FeatureKind;

pub const EXPERIMENT: Experiment = Experiment {
    name: "scalability",
    about: "time per query against the number of stored hashes, with fitted growth (Figure 7)",
    run,
    draw,
    verdicts,
};

/// What is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScalabilityConfig {
    stored: Size,
    /// Numbers of stored hashes, each half of the next.
    sizes: u32,
    queries: Size,
    methods: Vec<Method>,
}

fn run(options: &Options) -> Result<()> {
    let config: ScalabilityConfig = config::read(options, EXPERIMENT.name)?;
    let searches = Searches::read(options)?;
    let (most, queries) = options.sizes(config.stored, config.queries);
    for path in options.corpora() {
        let corpus = Corpus::load(&options.progress, &path, FeatureKind::Words)?;
        let mut table = Table::create(options, EXPERIMENT.name, &corpus.name, &corpus.digest)?;
        let mut sizes: Vec<usize> = (0..config.sizes).map(|halvings| most >> halvings).collect();
        sizes.reverse();
        let points = options.progress.points(2 * sizes.len() * config.methods.len());
        for stored in sizes {
            let workload = Workload::generated(options, &searches, &corpus, stored, queries)?;
            Bench::new(&workload, searches.distance, &mut table, &points)?.at_recall(&config.methods)?;
        }
    }
    Ok(())
}

/// The exponent b of time = a · n^b, by least squares on logarithms.
fn growth(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs = points.iter().map(|&(x, y)| (x.ln(), y.ln()));
    let (sx, sy) = logs.clone().fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x, sy + y));
    let (mx, my) = (sx / n, sy / n);
    let (xy, xx) =
        logs.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + (x - mx) * (y - my), xx + (x - mx).powi(2)));
    xy / xx
}

fn points(rows: &[Row], corpus: &str, method: &str, mode: &str) -> Vec<(f64, f64)> {
    let rows = rows
        .iter()
        .filter(|r| r.text("corpus") == corpus && r.text("method") == method && r.text("mode") == mode);
    let mut points: Vec<(f64, f64)> =
        rows.map(|row| (row.number("stored"), 1e6 / row.number("queries_per_cpu_second"))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    for corpus in distinct(rows, "corpus") {
        let panel = |mode: &str, title: &str| Panel {
            title: title.into(),
            x: Axis::log("stored distinct hashes"),
            y: Axis::log("microseconds of processor time per query"),
            series: distinct(rows, "method")
                .iter()
                .enumerate()
                .map(|(colour, method)| {
                    let points = points(rows, &corpus, method, mode);
                    Series::new(method.clone(), Look::Marked { colour, dashed: colour >= 4 }, points)
                })
                .collect(),
        };
        let panels = [panel("all", "(A) every match"), panel("first", "(F) the first match")];
        let note = "generated hashes, distance up to 3; probabilistic methods at 95 % recall, calibrated at each size";
        let path = options.figures().join(format!("scalability-{corpus}.svg"));
        figure::draw(
            &path,
            &format!("Growth with the number of stored hashes, {}", described(&corpus)),
            note,
            2,
            &panels,
        )?;
    }
    Ok(())
}

fn verdicts(_: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let mut all = Vec::new();
    for corpus in distinct(rows, "corpus") {
        for method in distinct(rows, "method") {
            let fits: Vec<String> = ["all", "first"]
                .iter()
                .map(|mode| (mode, points(rows, &corpus, &method, mode)))
                .filter(|(_, points)| points.len() > 2)
                .map(|(mode, points)| format!("{mode}: time ~ n^{:.2}", growth(&points)))
                .collect();
            all.push(Verdict {
                item: format!("{}, {method}", described(&corpus)),
                paper: "Figure 7, no numbers in the slides".into(),
                ours: fits.join("; "),
                finding: Finding::New,
                because: "fitted on logarithms over the measured sizes".into(),
            });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #[test]
    fn growth_of_a_power_is_its_exponent() {
        let points: Vec<(f64, f64)> = (1..9).map(|n| (f64::from(n), 3.0 * f64::from(n).powf(0.7))).collect();
        assert!((super::growth(&points) - 0.7).abs() < 1e-9);
    }
}
