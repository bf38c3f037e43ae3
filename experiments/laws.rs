//! What must hold of the rows of any run, however small: counts, orders and laws. `all` checks them after each
//! experiment, so that a run which ends has also found what it should.

use crate::pairs::sets;
use crate::results::Row;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;

/// The rows that have these fields in common, in their order, by the values of the fields.
fn groups<'a>(rows: &[&'a Row], fields: &[&str]) -> BTreeMap<String, Vec<&'a Row>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let name: Vec<&str> = fields.iter().map(|field| row.text(field)).collect();
        groups.entry(name.join(", ")).or_default().push(row);
    }
    groups
}

/// Numbers of a field.
fn numbers(rows: &[&Row], field: &str) -> Vec<f64> {
    rows.iter().map(|row| row.number(field)).collect()
}

fn same(rows: &[&Row], field: &str) -> bool {
    rows.windows(2).all(|pair| pair[0].text(field) == pair[1].text(field))
}

fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

/// A curve: the numbers of flips or probes ascend, recall does not fall, stays a share, and lies within its interval.
fn is_curve(rows: &[&Row], over: &str) -> bool {
    numbers(rows, over).is_sorted_by(|a, b| a < b)
        && numbers(rows, "recall").is_sorted()
        && rows.iter().all(|row| {
            let (low, high) = (row.number("low"), row.number("high"));
            is_share(row.number("recall")) && low <= row.number("recall") && row.number("recall") <= high
        })
}

/// Holds the rows of an experiment against its laws.
///
/// # Errors
/// Names the first law that is broken.
pub fn hold(experiment: &str, rows: &[Row]) -> Result<()> {
    let rows: Vec<&Row> = rows.iter().collect();
    ensure!(!rows.is_empty(), "{experiment}: no rows");
    ensure!(
        rows.iter().all(|row| !row.text("command").is_empty()),
        "{experiment}: a row without its command"
    );
    match experiment {
        "flips-vs-recall" => flips(&rows),
        "flip-order" => flip_order(&rows),
        "nearness" => nearness(&rows),
        "online-throughput" | "scalability" | "dial" => throughput(&rows),
        "plan" => plan(&rows),
        "batch" => batch(&rows),
        "all-pairs-cost" => all_pairs(&rows),
        "band-scores" => band_scores(&rows),
        "sketches" => sketches(&rows),
        "feature-choice" => feature_choice(&rows),
        "quality" => quality(&rows),
        other => anyhow::bail!("{other}: nothing is said of what must hold"),
    }
}

fn flips(rows: &[&Row]) -> Result<()> {
    for (name, curve) in groups(rows, &["corpus", "h", "order"]) {
        let all = sets(curve[0].number("h") as u32);
        ensure!(is_curve(&curve, "flips"), "{name}: no curve");
        let last = curve[curve.len() - 1];
        ensure!(
            last.number("flips") == all as f64 && last.number("recall") == 1.0,
            "{name}: not everything found"
        );
        // The lowest-margin bits first cannot be worse than any order.
        let worse = |row: &&&Row| row.number("recall") + 1e-4 < row.number("flips") / all as f64;
        ensure!(!curve.iter().any(|row| worse(&row)), "{name}: worse than random order");
        let first = curve[0].number("recall") * all as f64;
        ensure!(
            curve[0].number("flips") == 1.0 && first > 8.0,
            "{name}: the first flips find {first} times as many"
        );
    }
    Ok(())
}

fn flip_order(rows: &[&Row]) -> Result<()> {
    for (name, curve) in groups(rows, &["corpus", "among", "order"]) {
        ensure!(is_curve(&curve, "probes"), "{name}: no curve");
        ensure!(curve[curve.len() - 1].number("recall") == 1.0, "{name}: not everything found");
    }
    for (name, of) in groups(rows, &["corpus", "among"]) {
        let orders = groups(&of, &["order"]);
        let Some(random) = orders.get("random order") else { anyhow::bail!("{name}: no random order") };
        ensure!(orders.len() == 3, "{name}: {} orders", orders.len());
        for (order, curve) in &orders {
            let pairs = || curve.iter().zip(random);
            ensure!(
                curve.len() == random.len() && pairs().all(|(a, b)| a.text("probes") == b.text("probes")),
                "{name}: {order} was measured after other numbers of probes than random order"
            );
            // Weights cannot make a search worse; a draw may be lucky by as much.
            let worse = pairs().find(|(ours, random)| ours.number("recall") + 0.02 < random.number("recall"));
            if let Some((ours, _)) = worse {
                anyhow::bail!(
                    "{name}: {order} is worse than random order after {} probes",
                    ours.text("probes")
                );
            }
            // After some probes, where neither has found nearly nothing nor nearly all.
            let gain = pairs().map(|(ours, random)| ours.number("recall") - random.number("recall"));
            ensure!(
                order == "random order" || gain.fold(0.0, f64::max) > 0.1,
                "{name}: {order} is no better than random order"
            );
        }
    }
    Ok(())
}

fn nearness(rows: &[&Row]) -> Result<()> {
    for (name, curve) in groups(rows, &["corpus", "measure", "from", "to"]) {
        ensure!(is_curve(&curve, "flips"), "{name}: no curve");
    }
    // Of the model, the nearer a pair, the fewer flips; and flips in a key are fewer than over all bits.
    let model: Vec<&Row> = rows.iter().filter(|row| row.text("source") == "model").copied().collect();
    ensure!(!model.is_empty(), "no model");
    let reached = |rows: &[&Row]| {
        let reached = rows.iter().filter(|row| row.number("recall") >= 0.95);
        reached.map(|row| row.number("flips")).fold(f64::MAX, f64::min)
    };
    for (measure, of) in groups(&model, &["measure"]) {
        let mut cosines: Vec<(f64, f64)> =
            groups(&of, &["from"]).values().map(|rows| (rows[0].number("from"), reached(rows))).collect();
        cosines.sort_by(|a, b| a.0.total_cmp(&b.0));
        ensure!(cosines.is_sorted_by(|a, b| a.1 >= b.1), "{measure}: nearer pairs take more flips");
    }
    for (cosine, of) in groups(&model, &["from"]) {
        let measures = groups(&of, &["measure"]);
        let (all, key) = (reached(&measures["probes, all bits"]), reached(&measures["probes, key"]));
        ensure!(key < all, "cosine {cosine}: {key} probes in a key, {all} over all bits");
    }
    Ok(())
}

fn throughput(rows: &[&Row]) -> Result<()> {
    for row in rows {
        let name = format!("{}, {}, budget {:?}", row.text("method"), row.text("mode"), row.text("budget"));
        if row.text("pairs") == "0" {
            continue;
        }
        ensure!(is_share(row.number("recall")), "{name}: recall {}", row.text("recall"));
        ensure!(row.number("stored") <= row.number("documents"), "{name}: more hashes than documents");
        let dial = row.text("method").starts_with("dial");
        // The dial with two flips in one table ends before it has found every pair.
        if row.text("budget").is_empty() && !dial {
            ensure!(row.number("recall") == 1.0, "{name}: exact, with a recall of {}", row.text("recall"));
        }
    }
    // The more probes, the more is found.
    for (name, curve) in groups(rows, &["corpus", "radius", "method", "mode", "threads", "stored"]) {
        let mut budgets: Vec<(f64, f64)> = curve
            .iter()
            .filter(|row| !row.text("budget").is_empty())
            .map(|row| (row.number("budget"), row.number("recall")))
            .collect();
        budgets.sort_by(|a, b| a.0.total_cmp(&b.0));
        ensure!(budgets.is_sorted_by(|a, b| a.1 <= b.1), "{name}: more probes find less");
    }
    // Slow methods are asked a part of the queries; those that are asked the same have the same pairs to find.
    for (name, of) in groups(rows, &["corpus", "radius", "stored", "mode", "queries"]) {
        ensure!(same(&of, "pairs"), "{name}: methods are judged by different pairs");
    }
    Ok(())
}

fn plan(rows: &[&Row]) -> Result<()> {
    for row in rows {
        let name = format!("distance {}, recall {}", row.text("radius"), row.text("recall_wanted"));
        ensure!(row.text("bytes_predicted") == row.text("bytes"), "{name}: bytes are not as predicted");
        let off = (row.number("recall_predicted") - row.number("recall")).abs();
        ensure!(off <= 0.06, "{name}: recall is {off} from the predicted one");
    }
    Ok(())
}

fn batch(rows: &[&Row]) -> Result<()> {
    for row in rows {
        let name = format!("{}, {}, n {}", row.text("method"), row.text("mode"), row.text("stored"));
        match row.text("budget") {
            "" => {
                // Of nothing nothing is found.
                let is_all = row.number("recall") == 1.0 || row.number("to_find") == 0.0;
                ensure!(is_all, "{name}: exact, with a recall of {}", row.text("recall"))
            }
            _ => {
                // The budget was measured on other queries: a few dozen pairs to find are too few to tell.
                if row.number("to_find") >= 300.0 {
                    ensure!(row.number("recall") > 0.8, "{name}: a recall of {}", row.text("recall"));
                }
                let probes = row.number("budget") * row.number("queries");
                ensure!(row.number("probes") == probes, "{name}: {} probes", row.text("probes"));
            }
        }
        if row.text("mode") == "first" {
            ensure!(row.number("to_find") <= row.number("queries"), "{name}: more answers than queries");
        }
    }
    // What is found does not depend on where the hashes come from.
    for (name, of) in groups(rows, &["corpus", "varied", "stored", "queries", "mode", "method"]) {
        ensure!(
            ["to_find", "candidates", "verified", "bytes"].iter().all(|field| same(&of, field)),
            "{name}: other matches from another medium"
        );
    }
    Ok(())
}

fn all_pairs(rows: &[&Row]) -> Result<()> {
    let joins: Vec<&Row> = rows.iter().filter(|row| row.text("what").starts_with("join")).copied().collect();
    for (name, of) in groups(&joins, &["corpus", "pages"]) {
        ensure!(of.len() >= 4 && same(&of, "pairs"), "{name} hashes: joins find different pairs");
    }
    for (name, mut of) in groups(&joins, &["corpus", "what"]) {
        of.sort_by(|a, b| a.number("pages").total_cmp(&b.number("pages")));
        ensure!(numbers(&of, "pairs").is_sorted(), "{name}: fewer pairs of more hashes");
    }
    ensure!(joins.iter().any(|row| row.number("pairs") > 0.0), "no pairs to find");
    Ok(())
}

fn band_scores(rows: &[&Row]) -> Result<()> {
    for (name, band) in groups(rows, &["corpus", "method", "truth", "band"]) {
        let portions: f64 = numbers(&band, "portion").iter().sum();
        ensure!((portions - 1.0).abs() < 1e-4 || portions == 0.0, "{name}: portions add up to {portions}");
        ensure!(numbers(&band, "score").is_sorted_by(|a, b| a < b), "{name}: scores do not ascend");
        // What the tool lists is not judged.
        let is_judged = !band[0].text("truth").is_empty();
        ensure!(
            !is_judged || numbers(&band, "recall_from_score").is_sorted_by(|a, b| a >= b),
            "{name}: a higher threshold finds more"
        );
    }
    // Equal sketches are equal in every band, so each has the same number of pairs with the full score.
    for (name, of) in groups(rows, &["corpus", "method"]) {
        let top = numbers(&of, "score").into_iter().fold(0.0, f64::max);
        let full: Vec<&Row> = of.into_iter().filter(|row| row.number("score") == top).collect();
        // The tool has a list for each band, and none of all of them.
        let lists = if full[0].text("truth").is_empty() { 4 } else { 5 };
        ensure!(
            full.len() >= lists && same(&full, "number"),
            "{name}: bands differ in their pairs of the full score"
        );
    }
    Ok(())
}

fn sketches(rows: &[&Row]) -> Result<()> {
    let errors: Vec<&Row> =
        rows.iter().filter(|row| row.text("what") == "error of resemblance").copied().collect();
    ensure!(!errors.is_empty(), "no errors of resemblance");
    for (name, mut of) in groups(&errors, &["corpus", "method", "resemblance_from", "resemblance_to"]) {
        of.sort_by(|a, b| a.number("bytes_per_document").total_cmp(&b.number("bytes_per_document")));
        let (small, large) = (of[0], of[of.len() - 1]);
        if small.number("bytes_per_document") < large.number("bytes_per_document")
            && large.number("pairs") > 100.0
        {
            ensure!(large.number("value") <= small.number("value"), "{name}: a larger sketch errs more");
        }
    }
    Ok(())
}

fn feature_choice(rows: &[&Row]) -> Result<()> {
    for (name, mut of) in groups(rows, &["corpus", "features", "weighting", "kind"]) {
        of.sort_by(|a, b| a.number("distance").total_cmp(&b.number("distance")));
        let shares = numbers(&of, "share_within");
        ensure!(shares.is_sorted() && shares.iter().all(|&share| is_share(share)), "{name}: shares fall");
    }
    Ok(())
}

fn quality(rows: &[&Row]) -> Result<()> {
    for row in rows {
        let [hits, wrong, missed] = ["tp", "fp", "fn"].map(|field| row.number(field));
        let reported = row.number("f1");
        let f1 = 2.0 * hits / (2.0 * hits + wrong + missed);
        let off = (reported - f1).abs();
        ensure!(reported.is_nan() || off < 1e-3, "F1 is {reported}, and of its counts {f1}");
    }
    for (name, of) in groups(rows, &["corpus", "pairs"]) {
        let all = |row: &&Row| row.number("tp") + row.number("fn");
        ensure!(
            of.windows(2).all(|pair| all(&pair[0]) == all(&pair[1])),
            "{name}: settings differ in what is right"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rows(text: &str) -> Vec<Row> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        crate::results::read(file.path()).unwrap()
    }

    #[test]
    fn broken_laws_are_named() {
        let broken = |experiment: &str, text: &str| hold(experiment, &rows(text)).unwrap_err().to_string();
        let flips = "command,corpus,h,order,flips,recall,low,high\n";
        let curve = |recalls: [f64; 3]| {
            let [a, b, c] = recalls;
            format!("{flips}x,c,1,o,1,{a},0,1\nx,c,1,o,4,{b},0,1\nx,c,1,o,64,{c},0,1\n")
        };
        assert!(hold("flips-vs-recall", &rows(&curve([0.3, 0.8, 1.0]))).is_ok());
        assert!(broken("flips-vs-recall", &curve([0.3, 0.2, 1.0])).contains("no curve"));
        assert!(broken("flips-vs-recall", &curve([0.3, 0.8, 0.9])).contains("not everything"));
        assert!(broken("flips-vs-recall", &curve([0.01, 0.8, 1.0])).contains("random order"));
        assert!(broken("flips-vs-recall", &curve([0.1, 0.8, 1.0])).contains("first flips"));
        let order = "command,corpus,among,order,probes,recall,low,high\n";
        let orders = |vosh: f64, random: f64| {
            let of =
                |order: &str, recall: f64| format!("x,c,k,{order},1,{recall},0,1\nx,c,k,{order},9,1,0,1\n");
            format!("{order}{}{}{}", of("VOSH", vosh), of("static order", 0.9), of("random order", random))
        };
        assert!(hold("flip-order", &rows(&orders(0.9, 0.5))).is_ok());
        assert!(broken("flip-order", &orders(0.4, 0.5)).contains("worse than random order after 1"));
        assert!(broken("flip-order", &orders(0.55, 0.5)).contains("no better"));
        assert!(
            broken("flip-order", &orders(0.9, 0.5).replace("random order,9", "random order,8"))
                .contains("other numbers")
        );
        let plan = "command,radius,recall_wanted,bytes_predicted,bytes,recall_predicted,recall\n";
        assert!(broken("plan", &format!("{plan}x,3,0.95,10,11,0.95,0.95\n")).contains("bytes"));
        assert!(broken("plan", &format!("{plan}x,3,0.95,10,10,0.95,0.5\n")).contains("recall"));
        let online = "command,method,mode,budget,recall,stored,documents\n";
        assert!(broken("dial", &format!("{online}x,BPHS 4,all,,0.99,1,1\n")).contains("exact"));
        assert!(broken("plan", "radius\n3\n").contains("command"));
        assert!(hold("plan", &[]).is_err() && hold("another", &rows(&curve([0.3, 0.8, 1.0]))).is_err());
        let bands = "command,corpus,method,truth,band,score,number,portion,recall_from_score\n";
        let text = format!("{bands}x,c,m,t,0,63,1,0.5,1\nx,c,m,t,0,64,2,0.4,0.5\n");
        assert!(broken("band-scores", &text).contains("add up"));
        let quality = "command,corpus,pairs,tp,fp,fn,f1\n";
        assert!(broken("quality", &format!("{quality}x,c,all,1,0,1,0.9\n")).contains("F1"));
    }
}
