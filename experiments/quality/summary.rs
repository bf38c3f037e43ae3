//! The figure, the table and the verdicts, from rows alone.

use super::{EXPERIMENT, QualityConfig, Shown};
use crate::check::Verdict;
use crate::figure::{self, Axis, Look, Panel, Series};
use crate::progress::say;
use crate::results::{Row, distinct};
use crate::{Options, config};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What names a setting.
const FIELDS: [&str; 8] =
    ["method", "features", "weighting", "distance", "positions", "similarity", "check", "threshold"];

fn key(row: &Row) -> String {
    FIELDS.map(|field| if row.text(field).is_empty() { "-" } else { row.text(field) }).join(" ")
}

/// F1; 0 where nothing was found.
fn f1(row: &Row) -> f64 {
    let f1 = row.number("f1");
    if f1.is_finite() { f1 } else { 0.0 }
}

/// Rows by what found them: our settings by [`key`], rivals by name; each with its row of every set that has
/// one.
struct Rows<'a> {
    all: &'a [Row],
    /// The sets, judged ones first, and their kinds.
    sets: Vec<(String, &'a str)>,
    ours: BTreeMap<String, BTreeMap<&'a str, &'a Row>>,
    rivals: BTreeMap<&'a str, BTreeMap<&'a str, &'a Row>>,
}

impl<'a> Rows<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let mut sets: Vec<(String, &str)> = distinct(rows, "corpus")
            .into_iter()
            .map(|set| {
                let kind = rows.iter().find(|row| row.text("corpus") == set).map_or("", |r| r.text("kind"));
                (set, kind)
            })
            .collect();
        sets.sort_by_key(|(set, kind)| {
            (["judged", "planted", "lexical"].iter().position(|k| k == kind), set.clone())
        });
        let mut all = Self { all: rows, sets, ours: BTreeMap::new(), rivals: BTreeMap::new() };
        for row in rows.iter().filter(|row| row.text("pairs") == "all") {
            let set = row.text("corpus");
            if row.text("tool") == "simflip" {
                all.ours.entry(key(row)).or_default().insert(set, row);
            } else {
                all.rivals.entry(row.text("tool")).or_default().insert(set, row);
            }
        }
        all
    }

    /// Mean F1 over the sets for which `of` says yes; none if a set is missing.
    fn mean(&self, rows: &BTreeMap<&str, &Row>, of: impl Fn(&str) -> bool) -> Option<f64> {
        let sets = self.sets.iter().filter(|(set, _)| of(set));
        let scores = sets.map(|(set, _)| Some(f1(rows.get(set.as_str())?))).collect::<Option<Vec<f64>>>()?;
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// Our setting with the best mean F1 over some sets.
    fn best(&self, of: impl Fn(&str) -> bool) -> Option<(&str, f64)> {
        let means = self.ours.iter().filter_map(|(name, rows)| Some((name.as_str(), self.mean(rows, &of)?)));
        means.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The best F1 of any rival on a set.
    fn best_rival(&self, set: &str) -> Option<(&str, f64)> {
        let scores = self.rivals.iter().filter_map(|(name, rows)| Some((*name, f1(rows.get(set)?))));
        scores.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Our setting with the best F1 on a set: chosen on what it is scored on.
    fn best_here(&self, set: &str) -> Option<(&str, f64)> {
        let scores = self.ours.iter().filter_map(|(name, rows)| Some((name.as_str(), f1(rows.get(set)?))));
        scores.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// F1 on a set of the setting that is best on the mean of all other sets.
    fn chosen_elsewhere(&self, set: &str) -> Option<(&str, f64)> {
        let (name, _) = self.best(|other| other != set)?;
        Some((name, f1(self.ours[name].get(set)?)))
    }

    /// F1 of judged pairs where the setting for each part was chosen on the other parts.
    fn cross_validated(&self, set: &str) -> Option<f64> {
        let folds = |row: &Row| -> Vec<[f64; 3]> {
            let fold = |text: &str| {
                let mut counts = text.split('/').map(|count| count.parse().unwrap_or(0.0));
                std::array::from_fn(|_| counts.next().unwrap_or(0.0))
            };
            row.text("folds").split_whitespace().map(fold).collect()
        };
        let all: Vec<Vec<[f64; 3]>> =
            self.ours.values().filter_map(|rows| Some(folds(rows.get(set)?))).collect();
        let parts = all.first().map_or(0, Vec::len);
        let score = |counts: &mut dyn Iterator<Item = &[f64; 3]>| {
            let [tp, fp, r#fn] =
                counts.fold([0.0; 3], |sum: [f64; 3], c| std::array::from_fn(|i| sum[i] + c[i]));
            2.0 * tp / (2.0 * tp + fp + r#fn)
        };
        let held_out: Vec<[f64; 3]> = (0..parts)
            .filter_map(|part| {
                let rest = |folds: &[[f64; 3]]| {
                    score(&mut folds.iter().enumerate().filter(|(i, _)| *i != part).map(|(_, c)| c))
                };
                let best = all.iter().max_by(|a, b| rest(a).total_cmp(&rest(b)))?;
                best.get(part).copied()
            })
            .collect();
        (parts > 1).then(|| score(&mut held_out.iter()))
    }
}

fn short(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.3}"))
}

pub fn draw(options: &Options, rows: &[Row]) -> Result<()> {
    let config: QualityConfig = config::read(options, EXPERIMENT.name)?;
    let rows_by = Rows::new(rows);
    let curve = |set: &str, name: &str, look: Look, fields: &[(&str, &str)]| {
        let of = |row: &&Row| {
            row.text("corpus") == set
                && row.text("tool") == "simflip"
                && row.text("pairs") == "all"
                && fields.iter().all(|(field, value)| row.text(field) == *value)
        };
        let points = rows.iter().filter(of).map(|row| (row.number("recall"), row.number("precision")));
        Series::new(name, look, points.filter(|p| p.0.is_finite() && p.1.is_finite()).collect())
    };
    let marked = |colour, dashed| Look::Marked { colour, dashed };
    let panels = rows_by.sets.iter().map(|(set, kind)| {
        let minhash = |positions: &'static str| {
            [("method", "minhash"), ("features", "shingles:5"), ("positions", positions), ("check", "none")]
        };
        let shingles = [
            ("method", "bphs"),
            ("features", "shingles:3"),
            ("weighting", "binary"),
            ("distance", "10"),
            ("check", "weights"),
        ];
        let words = [("method", "bphs"), ("features", "words"), ("weighting", "tf-idf"), ("check", "none")];
        let mut series = vec![
            curve(set, "SimHash of words, 3 to 12 bits", marked(0, false), &words),
            curve(set, "SimHash of 3-shingles, 10 bits, weights .8 to .97", marked(1, false), &shingles),
            curve(set, "MinHash 128 of 5-shingles, .3 to .9", marked(2, false), &minhash("128")),
            curve(set, "MinHash 16", marked(3, true), &minhash("16")),
        ];
        for (name, tool, look) in [
            ("text-dedup MinHash", "text-dedup-minhash-2gram-50x4", Look::Hollow { colour: 4 }),
            ("text-dedup SimHash", "text-dedup-simhash-3bits", Look::Hollow { colour: 5 }),
            ("datasketch .8", "datasketch-5shingles-0.8", Look::Hollow { colour: 6 }),
            ("find-simdoc Jaccard .2", "find-simdoc-jaccard-5shingles-0.2", Look::Published),
        ] {
            let row = rows_by.rivals.get(tool).and_then(|rows| rows.get(set.as_str()));
            let point = row.map(|row| (row.number("recall"), row.number("precision")));
            series.push(Series::new(name, look, point.into_iter().collect()));
        }
        Panel {
            title: format!("{set} ({kind})"),
            x: Axis::share("recall").between(0.0, 1.03),
            y: Axis::share("precision").between(0.0, 1.03),
            series,
        }
    });
    let panels: Vec<Panel> = panels.collect();
    let note =
        "pairs of pages; a curve runs over radius or threshold; hollow marks and crosses are other tools";
    let columns = panels.len().clamp(1, 3);
    figure::draw(&options.figures().join("quality.svg"), "Precision against recall", note, columns, &panels)?;
    let path = options.results().join("quality").join("TABLE.md");
    std::fs::write(&path, table(&config, &rows_by)?).with_context(|| path.display().to_string())?;
    say(format_args!("written {}", path.display()))?;
    Ok(())
}

/// F1 of the settings shown, of rivals, and of what would be chosen without looking; then precision and
/// recall.
fn table(config: &QualityConfig, rows: &Rows<'_>) -> Result<String> {
    let mut page = String::from(
        "# F1 on pairs\n\nMade from the rows in this folder by `experiments -- draw quality`.\n\n",
    );
    let names: Vec<String> = rows.sets.iter().map(|(set, kind)| format!("{set} ({kind})")).collect();
    writeln!(page, "| setting | {} | mean |", names.join(" | "))?;
    writeln!(page, "|---|{}---|", "---|".repeat(names.len()))?;
    let none = BTreeMap::new();
    let ours = |key: &str| rows.ours.get(key).unwrap_or(&none);
    let line = |of: &BTreeMap<&str, &Row>, field: &dyn Fn(&Row) -> String| -> String {
        let cell = |set: &str| of.get(set).map_or_else(|| "–".into(), |row| field(row));
        rows.sets.iter().map(|(set, _)| cell(set)).collect::<Vec<_>>().join(" | ")
    };
    let shown_f1 = |row: &Row| format!("{:.3}", f1(row));
    for Shown { name, setting } in &config.shown {
        let of = ours(setting);
        writeln!(page, "| {name} | {} | {} |", line(of, &shown_f1), short(rows.mean(of, |_| true)))?;
    }
    if let Some((key, mean)) = rows.best(|_| true) {
        writeln!(
            page,
            "| best single setting, chosen here: `{key}` | {} | {mean:.3} |",
            line(ours(key), &shown_f1)
        )?;
    }
    let per_set = |of: &dyn Fn(&str) -> Option<f64>| -> Vec<Option<f64>> {
        rows.sets.iter().map(|(set, _)| of(set)).collect()
    };
    let mean = |scores: &[Option<f64>]| {
        let known: Option<Vec<f64>> = scores.iter().copied().collect();
        short(known.filter(|s| !s.is_empty()).map(|s| s.iter().sum::<f64>() / s.len() as f64))
    };
    for (name, scores) in [
        ("setting chosen on the other sets", per_set(&|set| Some(rows.chosen_elsewhere(set)?.1))),
        (
            "setting chosen on four fifths of the judged pairs, scored on the fifth",
            per_set(&|set| rows.cross_validated(set)),
        ),
        ("best setting of each set, chosen on it", per_set(&|set| Some(rows.best_here(set)?.1))),
        ("best rival of each set, chosen on it", per_set(&|set| Some(rows.best_rival(set)?.1))),
    ] {
        let cells: Vec<String> = scores.iter().map(|score| short(*score)).collect();
        writeln!(page, "| {name} | {} | {} |", cells.join(" | "), mean(&scores))?;
    }
    for (name, of) in &rows.rivals {
        writeln!(page, "| *{name}* | {} | {} |", line(of, &shown_f1), short(rows.mean(of, |_| true)))?;
    }
    writeln!(page, "\n# Precision / recall\n\n| setting | {} |", names.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(names.len()))?;
    let both = |row: &Row| {
        let share = |field| match row.number(field) {
            share if share.is_finite() => format!("{share:.2}"),
            _ => "–".into(),
        };
        format!("{} / {}", share("precision"), share("recall"))
    };
    for Shown { name, setting } in &config.shown {
        writeln!(page, "| {name} | {} |", line(ours(setting), &both))?;
    }
    for (name, of) in &rows.rivals {
        writeln!(page, "| *{name}* | {} |", line(of, &both))?;
    }
    sorts(&mut page, config, rows)?;
    Ok(page)
}

/// F1 by sort of pair, where a set has pairs of several sorts.
fn sorts(page: &mut String, config: &QualityConfig, rows: &Rows<'_>) -> Result<()> {
    let mut columns: Vec<(&str, &str)> = Vec::new();
    for row in rows.all.iter().filter(|row| row.text("pairs") != "all") {
        let column = (row.text("corpus"), row.text("pairs"));
        // A few true pairs say little.
        if !columns.contains(&column) && row.number("tp") + row.number("fn") >= config.fewest_of_a_sort {
            columns.push(column);
        }
    }
    let names: Vec<String> = columns.iter().map(|(set, sort)| format!("{set}: {sort}")).collect();
    writeln!(page, "\n# F1 by sort of pair\n\n| setting | {} |", names.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(names.len()))?;
    for Shown { name, setting } in &config.shown {
        let cell = |&(set, sort): &(&str, &str)| {
            let is =
                |row: &&Row| row.text("corpus") == set && row.text("pairs") == sort && key(row) == *setting;
            rows.all.iter().find(is).map_or_else(|| "–".into(), |row| format!("{:.3}", f1(row)))
        };
        writeln!(page, "| {name} | {} |", columns.iter().map(cell).collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

/// Our aims, held against rivals: they are no published figures.
pub fn verdicts(options: &Options, rows: &[Row], _: &[Row]) -> Result<Vec<Verdict>> {
    let aim = config::read::<QualityConfig>(options, EXPERIMENT.name)?.aim;
    let rows = Rows::new(rows);
    let mut all = Vec::new();
    for (set, kind) in &rows.sets {
        let (Some((rival, theirs)), Some((ours, best))) = (rows.best_rival(set), rows.best_here(set)) else {
            continue;
        };
        let fair = match rows.cross_validated(set) {
            Some(fair) => format!("{fair:.3} with the setting chosen on other parts of the pairs"),
            None => match rows.chosen_elsewhere(set) {
                Some((key, fair)) => format!("{fair:.3} with the setting chosen on the other sets ({key})"),
                None => continue,
            },
        };
        all.push(Verdict {
            item: format!("{set} ({kind}): F1 of the best rival reached"),
            paper: format!("{theirs:.3} ({rival})"),
            ours: format!("{best:.3} ({ours}), best of all; {fair}"),
            finding: (best >= theirs).into(),
            because: "an aim of ours; the best of all settings and the best rival are both chosen on the set"
                .into(),
        });
    }
    let rival = rows
        .rivals
        .iter()
        .filter_map(|(name, of)| Some((name, rows.mean(of, |_| true)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some((rival, theirs)), Some((ours, best))) = (rival, rows.best(|_| true)) {
        all.push(Verdict {
            item: format!("mean F1 over the sets, {aim} above the best rival with one setting"),
            paper: format!("{theirs:.3} ({rival}); only rivals that finished every set"),
            ours: format!("{best:.3} ({ours})"),
            finding: (best >= theirs + aim).into(),
            because: "the lexical sets count the Jaccard coefficient of 5-shingles; a setting that counts it too is right by definition".into(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results;

    fn rows(lines: &str) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let header = "corpus,kind,tool,pairs,method,features,weighting,distance,positions,similarity,check,threshold,recall,precision,f1,folds";
        std::fs::write(&path, format!("{header}\n{lines}")).unwrap();
        results::read(&path).unwrap()
    }

    fn ours(set: &str, distance: u32, f1: f64, folds: &str) -> String {
        format!("{set},lexical,simflip,all,psm,words,tf-idf,{distance},,,none,,.5,.5,{f1},{folds}\n")
    }

    #[test]
    fn a_setting_chosen_elsewhere_is_not_the_best_here() {
        let lines = [
            ours("one", 3, 0.2, ""),
            ours("one", 5, 0.9, ""),
            ours("two", 3, 0.8, ""),
            ours("two", 5, 0.7, ""),
            "one,lexical,rival,all,,,,,,,,,.5,.5,0.5,\n".to_owned(),
        ];
        let rows = rows(&lines.concat());
        let rows = Rows::new(&rows);
        assert_eq!(rows.best_here("one").unwrap().1, 0.9);
        assert_eq!(rows.chosen_elsewhere("one").unwrap().1, 0.2);
        assert_eq!(rows.chosen_elsewhere("two").unwrap().1, 0.7);
        assert_eq!(rows.best_rival("one"), Some(("rival", 0.5)));
        assert_eq!(rows.best_rival("two"), None);
        let (key, mean) = rows.best(|_| true).unwrap();
        assert_eq!((key, (mean * 100.0).round()), ("psm words tf-idf 5 - - none -", 80.0));
    }

    #[test]
    fn each_part_is_scored_by_the_setting_that_the_other_parts_chose() {
        // Each setting is perfect where the other fails, so the parts choose the wrong one for one another.
        let lines = [ours("one", 3, 0.5, "9/0/0 0/9/9"), ours("one", 5, 0.5, "0/9/9 9/0/0")];
        assert_eq!(Rows::new(&rows(&lines.concat())).cross_validated("one"), Some(0.0));
        let lines = [ours("one", 3, 0.5, "9/0/0 9/0/0"), ours("one", 5, 0.5, "0/9/9 8/0/1")];
        assert_eq!(Rows::new(&rows(&lines.concat())).cross_validated("one"), Some(1.0));
        let lines = ours("one", 3, 0.5, "");
        assert_eq!(Rows::new(&rows(&lines)).cross_validated("one"), None);
    }
}
