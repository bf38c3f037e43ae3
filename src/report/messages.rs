//! Turns the numbers of a run into sentences and into the parts of its report. A function that gives an `Option` of a
//! warning gives none if there is no reason to warn.

use super::figures;
use super::model::{
    AgainstReport, BoilerplateReport, CompareReport, Corpus, CorruptRecord, CorruptionCount,
    CorruptionReport, ExactRecall, Histogram, LanguageCount, MemoryReport, Method, Outcome as Counts,
    Parameter, Recall, Report, SCurve, SearchCost, Sources,
};
use crate::corpus::{Corruption, CorruptionKind, EXTRACTOR, FileReading, Languages};
use crate::display::{counted, plural, printable, printable_path};
use crate::text::TOKENIZER;
use simflip_core::clusters::Linkage;
use simflip_core::dedup::{
    Capped, Cohesion, Lost, MeasuredRecall, Outcome, PairKind, Ran, Scores, Searched, Verified,
};
use simflip_core::id::{Cluster, Document};
use simflip_core::jaccard::{
    largest_exact, largest_odd, standard_error, standard_error_between, standard_error_of_values,
};
use simflip_core::minhash::one_bit;
use simflip_core::recall_estimate::{Estimated, Lower, RecallEstimate};
use simflip_core::search::psm::FlippedBits;
use simflip_core::settings::{Generator, Measure, Settings, Sketches, Verification};
use std::collections::BTreeMap;
use std::path::Path;

/// The meaning of a measure of similarity, in words.
pub fn meaning(measure: Measure) -> &'static str {
    match measure {
        Measure::Weights => "cosine of the weight vectors behind the documents' hashes",
        Measure::Mismatch => {
            "share of the weight behind the documents' hashes that is on bits where the hashes agree"
        }
        Measure::Estimate => "Jaccard coefficient of the documents' sets of features, estimated",
        Measure::Jaccard => "Jaccard coefficient of the documents' sets of features, counted",
        Measure::Containment => {
            "share of the smaller document's set of features that the larger one has, counted"
        }
        Measure::Cosine => "cosine of the documents' feature weights, counted",
        Measure::Edits => {
            "share of the characters that stay if one text is edited to be the other, or of the words, wherever they stand"
        }
        _ => "a similarity of this version's own",
    }
}

/// The name, in `pairs.csv`, of the measure of a pair's similarity, by the kind of the pair.
pub fn measure_name(settings: &Settings, kind: PairKind) -> &'static str {
    match (kind, settings.verification.measure()) {
        (PairKind::Exact, _) => "text",
        (PairKind::Near, Some(measure)) => measure.name(),
        (PairKind::Near, None) => "hash-cosine",
    }
}

/// The sketch of the settings as `--method` spells it: `minhash`, `both` or `simhash`.
pub fn method_name(settings: &Settings) -> &'static str {
    match settings.sketches {
        Sketches::MinHash { .. } | Sketches::OneBit { .. } => "minhash",
        Sketches::Both { .. } => "both",
        _ => "simhash",
    }
}

/// The index of a generator that probes, as `--index` spells it: `one-table`, `all-bits` or `dial`.
pub(crate) fn index_name(generator: &Generator) -> &'static str {
    match generator {
        Generator::Psm { flipped_bits: FlippedBits::Key { .. }, .. } => "one-table",
        Generator::Psm { flipped_bits: FlippedBits::All { .. }, .. } => "all-bits",
        _ => "dial",
    }
}

/// The search for candidates in a few words.
fn search_words(searched: &Searched) -> &'static str {
    match searched.ran {
        Ran::Join { .. } if matches!(searched.capped, Some(Capped::Sampled { .. })) => {
            "exact join of all hashes but those of dense groups"
        }
        Ran::Join { .. } => "exact join of all hashes",
        Ran::Probing { probes: Some(_), .. } => "probes of an index, the likeliest first",
        Ran::Probing { .. } => "all probes of an index, which is exact",
        Ran::Bphs { .. } => "block-permuted tables, which is exact",
        Ran::HashBands { distance, banding } if (distance as usize) < banding.bands => {
            "bands of hashes, more than bits that may differ, which is exact"
        }
        Ran::HashBands { .. } => {
            "bands of hashes; pairs within the distance that agree in no band are not found"
        }
        Ran::Keys { .. } => "keys that documents share, hashes of bands of MinHash positions",
        _ => "a search of this version's own",
    }
}

/// The method and its parameters, in words. `frequencies` is the file of document frequencies that was given.
pub fn method(
    settings: &Settings,
    frequencies: Option<&Path>,
    searched: &Searched,
    verified: Option<&Verified>,
) -> Method {
    let mut parameters = Vec::new();
    let mut add = |name: &str, value: String| parameters.push(Parameter { name: name.to_owned(), value });
    add("features", settings.features.to_string());
    add("tokenizer", TOKENIZER.to_owned());
    add("min features", settings.min_features.to_string());
    let mut similarity = match settings.sketches {
        Sketches::MinHash { permutations, .. } => {
            add("permutations", permutations.to_string());
            String::new()
        }
        Sketches::SimHash { weighting } => {
            add("weighting", weighting.name().to_owned());
            "cosine of the documents' feature weights, as estimated by the distance d of their hashes: cos(π·d/64)".to_owned()
        }
        Sketches::Both { bits, .. } => {
            add("sketch", format!("SimHash of 64 bits, {bits} bits for the Jaccard similarity"));
            String::new()
        }
        Sketches::OneBit { bits, .. } => {
            add("sketch", format!("one bit of each of {bits} MinHash positions"));
            String::new()
        }
        _ => String::new(),
    };
    if let Some((_, banding)) = settings.sketches.keyed() {
        add("bands", banding.bands.to_string());
        add("rows", banding.rows.to_string());
    }
    if settings.needs_frequencies() {
        let of_corpus = || "of this corpus".to_owned();
        add("frequencies", frequencies.map_or_else(of_corpus, |path| path.display().to_string()));
    }
    if let Some(distance) = settings.generator.distance() {
        add("distance", format!("{distance} of 64 bits"));
    }
    if let Some(recall) = settings.generator.recall().and_then(|recall| recall.share()) {
        add("recall", recall.to_string());
    }
    add("search", search_words(searched).to_owned());
    match searched.ran {
        Ran::Probing { tables, key_bits, flips, probes, all_probes, .. } => {
            add("index", index_name(&settings.generator).to_owned());
            add("tables", tables.to_string());
            add("key bits", key_bits.to_string());
            add("flips in a key", flips.to_string());
            let all = || format!("{all_probes} (all)");
            add("probes a document", probes.map_or_else(all, |n| n.to_string()));
        }
        Ran::Bphs { tables, .. } => add("tables", tables.to_string()),
        Ran::HashBands { banding, .. } => {
            add("bands", banding.bands.to_string());
            add("bits of a band", banding.rows.to_string());
        }
        _ => {}
    }
    add("verify", settings.verification.name().to_owned());
    if let (Some(measure), Some(threshold)) =
        (settings.verification.measure(), settings.verification.threshold())
    {
        meaning(measure).clone_into(&mut similarity);
        add("verify threshold", threshold.to_string());
        if let (Measure::Estimate, Sketches::MinHash { permutations, .. }) = (measure, settings.sketches) {
            let error = standard_error_of_values(threshold, permutations);
            add("standard error there", format!("{error:.3}"));
        }
        if let (Measure::Estimate, Sketches::OneBit { bits, .. }) = (measure, settings.sketches) {
            let error = one_bit::standard_error(threshold, bits);
            add("standard error there", format!("{error:.3}"));
        }
        if let (Measure::Estimate, Sketches::Both { bits, .. }) = (measure, settings.sketches) {
            let error = |size| format!("{:.3}", standard_error(threshold, bits, size));
            let error = match largest_odd(bits) {
                [0, _] => error(u32::MAX),
                [small, middle] => format!(
                    "none for documents of up to {} features, {} up to {small}, {} from {} on, {:.3} where one of two \
                     documents has {small} or fewer and the other more",
                    largest_exact(bits),
                    error(small),
                    error(u32::MAX),
                    middle + 1,
                    standard_error_between(threshold, bits)
                ),
            };
            add("standard error there", error);
        }
    }
    if let Some(verified) = verified {
        add("verified candidates", verified.compared.to_string());
        add("of these refused", verified.refused.to_string());
    }
    add("clusters", settings.linkage.name().to_owned());
    add("keep", settings.keep.to_string());
    if !settings.quota.is_one() {
        add("kept", settings.quota.to_string());
    }
    add("all pairs", if settings.all_pairs { "yes" } else { "no" }.to_owned());
    Method {
        name: method_name(settings).to_owned(),
        similarity,
        parameters,
        seed: settings.seed,
        hash: settings.feature_hash.name().to_owned(),
    }
}

/// The recall that a search by probes measured to choose their number. None unless the settings ask for a share of the
/// pairs.
pub fn recall(searched: &Searched) -> Option<Recall> {
    let MeasuredRecall { wanted, calibration, identical_pairs, with_identical, .. } = searched.recall?;
    let Ran::Probing { distance: h, all_probes, .. } = searched.ran else { return None };
    let mut denominator = match calibration.budget {
        Some(_) => format!(
            "of the pairs of distinct hashes at distance 1 to {h} around a sample of documents, exhaustively searched; half of \
             the duplicate clusters chose the number of probes, the other half ({}) measured this recall",
            counted(calibration.held_out_clusters, "cluster", "clusters")
        ),
        None => format!(
            "no smaller number of probes was sure to reach the recall on the {} at distance 1 to {h} of the sample, so the \
             search was exhaustive",
            counted(calibration.chosen_on, "pair", "pairs")
        ),
    };
    if let Some(share) = with_identical {
        let (pairs, share) = (counted(identical_pairs, "pair", "pairs"), 100.0 * share);
        denominator += &format!(". With the {pairs} of different texts of equal hashes, about {share:.2} % ");
        denominator += "of all pairs were found";
    }
    Some(Recall {
        wanted,
        reached: calibration.reached,
        low: calibration.low,
        high: calibration.high,
        confidence: 0.95,
        denominator,
        budget_probes: calibration.budget.map_or(all_probes, u64::from),
        sample_pairs: calibration.held_out,
    })
}

/// The probability that a search by band hashes compares a pair, by its Jaccard similarity. None for other searches,
/// and for band hashes if pairs are verified by another measure than a Jaccard similarity.
pub fn s_curve(settings: &Settings, searched: &Searched) -> Option<SCurve> {
    let (banding, similarity) = match (searched.ran, settings.verification) {
        (Ran::Keys { .. }, Verification::Estimate(similarity) | Verification::Jaccard(similarity)) => {
            (settings.sketches.keyed()?.1, similarity)
        }
        _ => return None,
    };
    Some(SCurve::new(banding.bands as u32, banding.rows as u32, similarity))
}

/// The unit of a histogram whose scores are estimated similarities in whole percent.
pub const PERCENT: &str = "% estimated similarity";

/// A histogram of the scores of generated pairs for each table or band, or one for all.
pub fn histograms(searched: &Searched) -> Vec<Histogram> {
    let (one, unit) = match searched.ran {
        Ran::HashBands { .. } => ("band", "64 − distance"),
        Ran::Keys { .. } => ("band", PERCENT),
        // Documents that share a key were compared by their sketches, and not hashes by their distance.
        Ran::Bphs { .. } if searched.scores.iter().all(|scores| scores.table.is_none()) => ("table", PERCENT),
        _ => ("table", "64 − distance"),
    };
    let of = |Scores { table, counts, .. }: &Scores| {
        let title = table.map_or_else(|| "all pairs".to_owned(), |table| format!("{one} {table}"));
        Histogram::new(title, unit, counts)
    };
    searched.scores.iter().map(of).collect()
}

/// The counted work of the search, with the size of its index.
pub fn cost(searched: &Searched) -> SearchCost {
    SearchCost {
        probes: searched.cost.probes,
        candidates: searched.cost.candidates,
        verified: searched.cost.verified,
        index_bytes: searched.index_bytes,
        distinct_hashes: searched.distinct,
    }
}

/// The counts of an outcome; `removed_text_bytes` are the bytes of the removed documents' texts.
pub fn counts(outcome: &Outcome, removed_text_bytes: u64) -> Counts {
    let (removed, exact) = (outcome.removed() as u64, outcome.exact_duplicates as u64);
    Counts {
        exact_duplicates: exact,
        near_duplicates: removed - exact,
        kept: outcome.new as u64 - removed,
        removed,
        removed_text_bytes,
        pairs_found: outcome.pairs_found,
        pairs_written: outcome.pairs.len() as u64,
        clusters: outcome.clusters.len() as u64,
        documents_in_clusters: outcome.clusters.values().len() as u64,
    }
}

/// A warning that more than 2 % of other lines were taken for boilerplate, because the table of counts is full.
pub fn boilerplate_warning(boilerplate: &BoilerplateReport) -> Option<String> {
    /// The share of mistaken lines below which hardly any result changes.
    const FEW: f64 = 0.02;
    (boilerplate.mistaken > FEW).then(|| {
        format!(
            "The table in which lines are counted is full: {:.0} % of the lines that are no boilerplate were left out as well. Run \
             simflip dedup on fewer files at a time, all of a group together.",
            100.0 * boilerplate.mistaken
        )
    })
}

/// `part` of `whole` in percent, 0 of nothing.
fn per_cent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The input in numbers, from the results of reading `files`, which have so many documents. The caller adds the
/// field of the text.
pub fn corpus(
    files: &[FileReading],
    documents: u64,
    documents_with_few_features: u64,
    languages: &Languages,
) -> Corpus {
    const LISTED: usize = 20;
    let named = |(language, documents): (&str, _)| LanguageCount { language: language.to_owned(), documents };
    let mut languages: Vec<LanguageCount> = languages.each().map(named).collect();
    languages.sort_by(|a, b| b.documents.cmp(&a.documents).then_with(|| a.language.cmp(&b.language)));
    languages.truncate(LISTED);
    let sum = |field: fn(&FileReading) -> u64| files.iter().map(field).sum();
    Corpus {
        files: files.len() as u64,
        stored_bytes: sum(|file| file.stored_bytes),
        text_bytes: sum(|file| file.text_bytes),
        records: sum(|file| file.records),
        documents,
        extracted: sum(|file| file.extracted),
        extractor: EXTRACTOR.filter(|_| files.iter().any(|file| file.extracted > 0)).map(str::to_owned),
        text_field: None,
        documents_with_few_features,
        languages,
    }
}

/// A warning that languages were not counted, because there are too many names of them.
pub fn languages_warning(languages: &Languages) -> Option<String> {
    languages.are_too_many().then(|| {
        "The documents name thousands of languages, which are not counted: the field `language` may hold something else. Nothing else depends on it.".to_owned()
    })
}

/// Sentences on the corrupt sections of an input, and the documents that they cost.
pub fn corruption_messages(corruption: &CorruptionReport) -> String {
    let sections = counted(corruption.total, "corrupt section", "corrupt sections");
    let (cost, them) = (corruption_cost(corruption), plural(corruption.total, "it", "them"));
    format!("Skipped {sections} of the input: {cost}. The report lists {them}.")
}

/// The number of documents that corruption costs, as a clause: `3 documents are lost`.
pub fn corruption_cost(corruption: &CorruptionReport) -> String {
    let lost = counted(corruption.documents_lost, "document is", "documents are");
    let unknown = counted(corruption.unknown_losses, "section", "sections");
    match (corruption.documents_lost, corruption.unknown_losses) {
        (_, 0) => format!("{lost} lost"),
        (0, _) => format!("the number of documents lost in {unknown} is unknown"),
        _ => format!("{lost} lost, and an unknown number in {unknown}"),
    }
}

/// The end of a warning of WARC records that hold an answer of a server in a form that is not read.
fn unread() -> &'static str {
    match EXTRACTOR {
        Some(_) => {
            "what a server sent (response, resource) and no page of HTML or plain text with a status of 2xx, and is passed over"
        }
        None => {
            "a document as a server sent it (response, resource), and is passed over: text is read from conversion records, as \
             WET files have them, and resources of plain text (a build with the feature `html` takes it from responses, too)"
        }
    }
}

/// Warnings of input that is odd but not corrupt, such as texts that were repaired or are null, for all files together.
/// Also one of records without a text.
pub fn odd_input_warnings<'a>(files: impl IntoIterator<Item = &'a FileReading> + Clone) -> Vec<String> {
    let warning = |count: fn(&FileReading) -> u64, one: &str, many: &str, what: &str| {
        let total: u64 = files.clone().into_iter().map(count).sum();
        let first = files.clone().into_iter().find(|file| count(file) > 0)?;
        let path = printable_path(&first.path);
        Some(format!("{} {what}; the first file with such is {path}.", counted(total, one, many)))
    };
    [
        warning(
            |file| file.repaired,
            "document holds",
            "documents hold",
            "bytes that are no UTF-8, or half a surrogate pair; U+FFFD stands for what cannot be read (--strict skips \
             such documents)",
        ),
        warning(
            |file| file.truncated,
            "document breaks",
            "documents break",
            "off in the input, as the crawler cut it or its connection ended; the text that is there is compared and kept",
        ),
        warning(
            |file| file.without_text,
            "record has",
            "records have",
            "no text but null, or begin a list of pages, and were skipped (--strict reports each of them)",
        ),
        warning(
            |file| file.unterminated,
            "file ends",
            "files end",
            "in a record of WARC without the blank lines behind it, and may have been cut there; its text is used",
        ),
        warning(|file| file.unread, "record of WARC holds", "records of WARC hold", unread()),
        lacking(files.clone(), |file| file.with_id, "ID", "--id-field"),
        lacking(files.clone(), |file| file.with_url, "URL", "--url-field"),
        records_without_text(files),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A warning if some documents, but fewer than half, have a `name`: an ID or a URL. `has` gives the number of those
/// that have it, and `option` is the option that names its field.
fn lacking<'a>(
    files: impl IntoIterator<Item = &'a FileReading> + Clone,
    has: fn(&FileReading) -> u64,
    name: &str,
    option: &str,
) -> Option<String> {
    let [with, all] = [has, |file| file.documents].map(|of| files.clone().into_iter().map(of).sum::<u64>());
    let first = files.into_iter().find(|file| has(file) < file.documents)?;
    (with > 0 && with < all - with).then(|| {
        let have = counted(with, "document has", "documents have");
        let path = printable_path(&first.path);
        format!("Only {have} the {name} that {option} names, of {all}; the first file with others is {path}.")
    })
}

/// A warning of the records of all files that have no text, and the fields of the first.
fn records_without_text<'a>(files: impl IntoIterator<Item = &'a FileReading> + Clone) -> Option<String> {
    let records: u64 = files.clone().into_iter().map(|file| file.no_text).sum();
    // Of very many corrupt sections, some are counted alone.
    let mut corruption = files.into_iter().flat_map(|file| &file.corruption);
    let first = corruption.find(|piece| piece.kind == CorruptionKind::NoText);
    let first = first.map(|first| format!("; the first: {first}")).unwrap_or_default();
    let has = counted(records, "record or file has", "records or files have");
    (records > 0).then(|| format!("{has} no text where it is looked for, and were skipped{first}."))
}

/// The corrupt sections of all files, and those that showed `later`, when kept documents were copied. These are listed
/// first, and at most 200 sections are.
pub fn corruption(files: &[FileReading], later: &[Corruption]) -> CorruptionReport {
    /// Sections that a report lists one by one.
    const LISTED: usize = 200;
    let mut by_kind: BTreeMap<String, u64> = BTreeMap::new();
    let listed = || later.iter().chain(files.iter().flat_map(|file| &file.corruption));
    for corruption in listed() {
        *by_kind.entry(corruption.kind.to_string()).or_default() += 1;
    }
    let beyond: u64 = files.iter().map(|file| file.corrupt - file.corruption.len() as u64).sum();
    if beyond > 0 {
        *by_kind.entry("not listed one by one".to_owned()).or_default() += beyond;
    }
    let mut by_kind: Vec<_> =
        by_kind.into_iter().map(|(kind, records)| CorruptionCount { kind, records }).collect();
    by_kind.sort_by(|a, b| b.records.cmp(&a.records).then_with(|| a.kind.cmp(&b.kind)));
    CorruptionReport {
        total: later.len() as u64 + files.iter().map(|file| file.corrupt).sum::<u64>(),
        documents_lost: later.iter().filter_map(|corruption| corruption.documents).sum::<u64>()
            + files.iter().map(|file| file.documents_lost).sum::<u64>(),
        unknown_losses: later.iter().filter(|corruption| corruption.documents.is_none()).count() as u64
            + files.iter().map(|file| file.unknown_losses).sum::<u64>(),
        by_kind,
        listed: listed()
            .take(LISTED)
            .map(|corruption| CorruptRecord {
                file: corruption.path.display().to_string(),
                record: corruption.record,
                offset: Some(corruption.offset),
                documents: corruption.documents,
                kind: corruption.kind.to_string(),
                detail: corruption.detail.clone(),
            })
            .collect(),
    }
}

/// The advice on documents of one template.
const TEMPLATE_ADVICE: &str = "Look at them: such documents may have little in common but the template. --verify looks closer, and \
                               --clusters star, the default, joins a document only with one that it is near.";

/// Warnings of pairs that were not compared, because too many documents are alike. `name` gives the name of a document.
pub fn search_warnings(
    searched: &Searched,
    verified: Option<&Verified>,
    name: &dyn Fn(Document) -> String,
) -> Vec<String> {
    let named = |examples: &[Document]| {
        examples.iter().map(|&document| name(document)).collect::<Vec<_>>().join(", ")
    };
    let mut warnings = Vec::new();
    match &searched.capped {
        Some(Capped::Sampled { hashes, sampled, examples }) => warnings.push(format!(
            "{} in dense groups, most likely documents of one template, whose pairs would grow with the square of their number; each \
             was compared with {} drawn from all, and joined with the nearest of them; all pairs of other documents \
             were found; for example {}. {TEMPLATE_ADVICE}",
            counted(*hashes, "hash lies", "hashes lie"),
            counted(*sampled, "hash", "hashes"),
            named(examples)
        )),
        Some(Capped::Nearest { hashes, passed_over, examples }) => {
            let most = simflip_core::search::selfjoin::MOST_NEIGHBOURS;
            let distance = match searched.ran {
                Ran::Join { distance }
                | Ran::Probing { distance, .. }
                | Ran::Bphs { distance, .. }
                | Ran::HashBands { distance, .. } => distance,
                _ => 0,
            };
            warnings.push(format!(
                "{} more than {most} neighbours within {}, most likely documents of one template; each was joined with its \
                 {most} nearest, and {} passed over; for example {}. {TEMPLATE_ADVICE}",
                counted(*hashes, "hash has", "hashes have"),
                counted(u64::from(distance), "bit", "bits"),
                counted(*passed_over, "neighbour was", "neighbours were"),
                named(examples)
            ));
        }
        Some(Capped::Leaders { skipped, most }) => warnings.push(format!(
            "{} not compared: where a document shares a band hash with more than {most} kept documents that are not near \
             each other, it was compared with the {most} likeliest. {TEMPLATE_ADVICE}",
            counted(*skipped, "pair that shares a band hash was", "pairs that share a band hash were"),
        )),
        _ => {}
    }
    if let Some(verified) = verified.filter(|verified| verified.skipped > 0) {
        let pairs = counted(verified.skipped, "pair of documents was", "pairs of documents were");
        warnings.push(format!(
            "{pairs} not compared, because too many documents with different texts share a sketch. --method both tells more texts \
             apart."
        ));
    }
    warnings
}

/// Advice on removed documents that may be of one template. `by` is the kind of their sources, as [`Sources::kind`].
fn removal_advice(by: &str) -> String {
    // Values of a field are counted where --boilerplate-by names it already.
    let ignoring = match by.starts_with("field:") {
        true => String::new(),
        false => format!("--boilerplate-by {by} ignores the lines of a template, "),
    };
    format!(
        "simflip explain A B INPUT compares two of them, {ignoring}and --max-removed 0.5 ends such a run without output."
    )
}

/// A warning for each kind of sources of which some lose nearly all of their documents.
pub fn sources_warnings(sources: &[Sources]) -> Vec<String> {
    const NAMED: usize = 3;
    // Where each folder has one file, the folders lose what the files lose.
    let files = sources.iter().find(|sources| sources.kind == "file").map(|files| files.number);
    let is_reported_by_files = |of: &Sources| of.kind == "folder" && Some(of.number) == files;
    let gone = sources.iter().filter(|sources| sources.nearly_removed > 0 && !is_reported_by_files(sources));
    let warning = |sources: &Sources| {
        let kind = match sources.kind.strip_prefix("field:") {
            Some(field) => format!("values of {}", printable(field)),
            None => format!("{}s", sources.kind),
        };
        let named = sources.removed.iter().take(NAMED).map(|row| {
            let documents = counted(row.documents, "document", "documents");
            format!("{} ({} of {documents})", printable(&row.source), row.lost())
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if sources.nearly_removed > NAMED as u64 { ", …" } else { "" };
        format!(
            "{} of {} {kind} {} at least {:.0} % of {} documents: {named}{more}. Either they mirror others, or documents of one template \
             were taken for duplicates. {}",
            sources.nearly_removed,
            sources.number,
            plural(sources.nearly_removed, "loses", "lose"),
            100.0 * Sources::NEARLY_ALL,
            plural(sources.nearly_removed, "its", "their"),
            removal_advice(&sources.kind),
        )
    };
    gone.map(warning).collect()
}

/// A warning that the whole interval of the recall is below the expected one. The recall is `measured` by a search by
/// probes, or `estimated` for bands with this curve.
pub fn recall_warning(
    measured: Option<&Recall>,
    s_curve: Option<&SCurve>,
    estimated: Option<&RecallEstimate>,
) -> Option<String> {
    let of_bands = || Some((estimated?.documents?.recall.high, s_curve?.probability_at_threshold));
    let (high, wanted) = measured.map(|recall| (recall.high, recall.wanted)).or_else(of_bands)?;
    (high < wanted).then(|| {
        format!(
            "The recall is at most {:.1} %, by its interval, and {:.1} % was to be expected. A higher --recall finds more.",
            100.0 * high,
            100.0 * wanted
        )
    })
}

/// The reason that none of the files that were read has a document, in words.
pub fn why_none(read: &[FileReading]) -> String {
    let files = counted(read.len() as u64, "file was", "files were");
    let corrupt = read.iter().map(|file| file.corrupt).sum();
    match read.iter().flat_map(|file| &file.corruption).next() {
        Some(first) => {
            let sections = counted(corrupt, "corrupt section", "corrupt sections");
            format!("{files} read, {sections}; the first: {first}")
        }
        None => match odd_input_warnings(read).first() {
            Some(odd) => format!("{files} read, and there is no document. {odd}"),
            None => format!("{files} read, and there is no conversion record or line of JSON"),
        },
    }
}

/// A warning of `repeated` new documents whose record id an earlier document has already.
pub fn repeated_ids_warning(repeated: u64) -> Option<String> {
    let documents = counted(repeated, "document has", "documents have");
    let (has, them) = ("a record id that an earlier document has already", plural(repeated, "it", "them"));
    (repeated > 0).then(|| {
        format!("{documents} {has}; results name {them} by file and place. --id-field names another field or column.")
    })
}

/// The documents that are unlike the kept one of their cluster, counted, with the worst examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Chaining {
    /// The measure of similarity, and the value below which documents are unlike.
    by: (Measure, f64),
    unlike: u64,
    /// Clusters that have such documents.
    clusters: u64,
    /// The clusters with the least similar documents, the worst first: of each the least similarity, the cluster, the
    /// document with it, and the kept one.
    worst: Vec<(f32, Cluster, [Document; 2])>,
}

impl Chaining {
    const NAMED: usize = 3;

    /// No cluster yet. `by` is the measure of similarity, and the value below which documents are unlike.
    pub fn new(by: (Measure, f64)) -> Self {
        Self { by, unlike: 0, clusters: 0, worst: Vec::new() }
    }

    /// Adds the next cluster: the similarities of its documents to the document `kept`.
    pub fn add(&mut self, cluster: Cluster, cohesion: &Cohesion, kept: Document) {
        if cohesion.unlike == 0 {
            return;
        }
        self.unlike += cohesion.unlike;
        self.clusters += 1;
        // Of equal similarities, that of the first cluster stays first.
        let at = self.worst.partition_point(|(lowest, ..)| lowest.total_cmp(&cohesion.lowest).is_le());
        self.worst.insert(at, (cohesion.lowest, cluster, [cohesion.farthest, kept]));
        self.worst.truncate(Self::NAMED);
    }

    /// The documents that the warning names.
    pub fn named(&self) -> impl Iterator<Item = Document> {
        self.worst.iter().flat_map(|&(.., documents)| documents)
    }
}

/// A warning of clusters with documents that are unlike the kept one. `name` gives the name of a document.
pub fn chaining_warning(
    chaining: &Chaining,
    linkage: Linkage,
    name: &dyn Fn(Document) -> String,
) -> Option<String> {
    let &Chaining { by: (measure, floor), unlike, clusters, ref worst } = chaining;
    let examples: Vec<String> = worst
        .iter()
        .map(|&(lowest, cluster, [farthest, kept])| {
            format!("{} with {} ({lowest:.2}, cluster {cluster})", name(farthest), name(kept))
        })
        .collect();
    (unlike > 0).then(|| {
        format!(
            "{} in {} {} unlike the document that stays (below {floor:.2}; {}), the worst: {}.{}",
            counted(unlike, "document", "documents"),
            counted(clusters, "cluster", "clusters"),
            plural(unlike, "is", "are"),
            meaning(measure),
            examples.join("; "),
            match linkage {
                Linkage::Connected =>
                    " They may hang together through others in between: --clusters star joins a document only with the one that \
                     stays.",
                Linkage::Star => " simflip explain A B INPUT shows where two of them differ.",
            }
        )
    })
}

/// A warning that the largest cluster, with `largest` documents, has more than 100 and more than a twentieth of all.
pub fn largest_warning(largest: u64, documents: u64, linkage: Linkage) -> Option<String> {
    const CHAINED: &str = "Documents far from each other may have been chained through others in between: --clusters star joins a \
                           document only with the one that stays.";
    let why = || match linkage {
        Linkage::Connected => CHAINED.to_owned(),
        Linkage::Star => {
            format!("They may be one template about different things. {}", removal_advice("host"))
        }
    };
    (largest > 100 && largest * 20 > documents)
        .then(|| format!("The largest cluster holds {largest} of {documents} documents. {}", why()))
}

/// A warning that a run in memory had a peak of more bytes than its limit. `documents` is the number that it had.
pub fn memory_warning(memory: &MemoryReport, peak: Option<u64>, documents: u64) -> Option<String> {
    let &MemoryReport { limit_bytes, expected_documents, on_disk, .. } = memory;
    let peak = peak.filter(|&peak| !on_disk && peak > limit_bytes)?;
    let mb = |bytes: u64| bytes.div_ceil(1_000_000);
    Some(format!(
        "{} MB of memory were taken, and {} MB allowed: by the first documents of the files {expected_documents} documents were expected, and \
         {documents} came. simflip sketch and the stages behind it keep to the memory that they are given.",
        mb(peak),
        mb(limit_bytes)
    ))
}

/// The guarantee of a run's search: that it is exact, except perhaps for dense groups. None if it may miss other pairs.
pub fn promise(report: &Report) -> Option<&'static str> {
    const EXACT: &str = "The search was exact: it can find every pair within the distance.";
    let (_, searched) = report.searched()?;
    match (searched.ran, &searched.capped) {
        (Ran::Join { .. }, Some(Capped::Sampled { .. }))
        | (Ran::Bphs { .. }, Some(Capped::Leaders { .. })) => Some(
            "The search was exact except for dense groups of documents of one template (see the warnings): it compared every \
                 other pair within the distance.",
        ),
        (Ran::Join { .. } | Ran::Bphs { .. } | Ran::Probing { probes: None, .. }, _) => Some(EXACT),
        (Ran::HashBands { distance, banding }, _) if (distance as usize) < banding.bands => Some(EXACT),
        _ => None,
    }
}

/// The threshold of a verification in words, as in "pairs with …": `Jaccard similarity 0.8 or more`.
fn near_words(verification: Verification) -> String {
    let threshold = verification.threshold().unwrap_or_default();
    let of = match verification {
        Verification::Containment(_) => "containment",
        Verification::Estimate(_) | Verification::Jaccard(_) => "Jaccard similarity",
        _ => "similarity",
    };
    format!("{of} {threshold} or more")
}

/// The recall of a search over SimHashes: `found` of the `pairs` of an exact join of the same hashes.
pub(crate) fn hamming_recall(
    found: u64,
    pairs: u64,
    distance: u32,
    verification: Verification,
) -> ExactRecall {
    let checked = match verification {
        Verification::None => String::new(),
        _ => format!(" that pass --verify {}", verification.name()),
    };
    let share = found as f64 / pairs as f64;
    ExactRecall {
        pairs,
        found,
        recall: (pairs > 0).then_some(Estimated { share, low: share, high: share }),
        of: format!(
            "pairs of texts whose hashes differ in 1 to {distance} bits{checked}, by an exact join of the same hashes"
        ),
    }
}

/// The recall of a method among the pairs of a sample whose counted Jaccard similarity is `similarity` or more.
pub(crate) fn counted_recall(
    recall_estimate: &RecallEstimate,
    similarity: f64,
    min_features: usize,
) -> ExactRecall {
    let features = match min_features {
        0 | 1 => String::new(),
        least => format!(" of {least} features or more"),
    };
    let of = format!("pairs of texts{features} with a Jaccard coefficient of {similarity} or more, counted");
    sampled(recall_estimate, of)
}

/// The recall of a method among the pairs of a sample that its own sketches confirm.
pub(crate) fn sampled_recall(recall_estimate: &RecallEstimate, verification: Verification) -> ExactRecall {
    let near = near_words(verification);
    sampled(recall_estimate, format!("pairs of texts with {near}, as the sketches estimate it"))
}

/// The recall of a sample; `of` says in words which pairs count.
fn sampled(recall_estimate: &RecallEstimate, of: String) -> ExactRecall {
    let sample = match recall_estimate.sampled > recall_estimate.compared {
        true => "all texts compared with each other".to_owned(),
        false => {
            format!("a sample of {} compared with all", counted(recall_estimate.sampled, "text", "texts"))
        }
    };
    ExactRecall {
        pairs: recall_estimate.pairs,
        found: recall_estimate.found,
        recall: recall_estimate.recall,
        of: format!("{of}: {sample}"),
    }
}

/// A sentence or two on the recall that a run estimated on a sample of its documents.
pub fn recall_sentence(recall_estimate: &RecallEstimate, verification: Verification) -> String {
    let percent = |recall: &Estimated| {
        let [share, low, high] =
            [recall.share, recall.low, recall.high].map(|share| format!("{:.1}", 100.0 * share));
        // Where all were compared nothing is estimated.
        if low == high { format!("{share} %") } else { format!("{share} % [{low}, {high}]") }
    };
    let are_all = recall_estimate.sampled > recall_estimate.compared;
    let [sampled, all] = [recall_estimate.sampled, recall_estimate.compared + 1].map(figures::count);
    let sample = match are_all {
        true => format!("all {sampled} distinct documents were compared with each other"),
        false => format!("{sampled} sampled documents were compared with all {all}"),
    };
    let missed = |missed: u64| match missed {
        0 => "none was missed".to_owned(),
        missed => format!("{} missed", counted(missed, "duplicate was", "duplicates were")),
    };
    if let Verification::Containment(threshold) = verification {
        return match &recall_estimate.documents {
            Some(documents) => format!(
                "Estimated recall {} of the documents of which a kept one contains {threshold} or more: {sample}, and {}.",
                percent(&documents.recall),
                missed(documents.missed)
            ),
            None => {
                format!("No kept document was found that contains {threshold} or more of another: {sample}.")
            }
        };
    }
    let near = near_words(verification);
    let pairs = counted(recall_estimate.pairs, "pair", "pairs");
    let Some(documents) = &recall_estimate.documents else {
        return match &recall_estimate.recall {
            Some(recall) => format!(
                "Estimated recall {} of the pairs with {near}: {sample}, which showed {pairs}.",
                percent(recall)
            ),
            None if are_all && recall_estimate.sampled < 2 => {
                "There is one distinct document, and no pair to find.".to_owned()
            }
            None if are_all && recall_estimate.pairs == recall_estimate.found => {
                format!("No pair with {near} was missed: {sample}, which showed {pairs}.")
            }
            None => format!(
                "Too few pairs to estimate the recall: {sample}, which showed {pairs} with {near}, {} of them found.",
                recall_estimate.found
            ),
        };
    };
    let shared = recall_estimate.recall.as_ref().map_or(recall_estimate.found.to_string(), percent);
    let lower = match recall_estimate.lower.filter(Lower::is_worth_reporting) {
        Some(Lower { similarity, share, .. }) => format!(
            "\nAnother {} of the distinct documents have an earlier near-duplicate at --similarity {similarity}.",
            percent(&share)
        ),
        None => String::new(),
    };
    let (recall, missed) = (percent(&documents.recall), missed(documents.missed));
    format!(
        "Estimated recall {recall} of the documents with an earlier near-duplicate: {sample}, and {missed}. Of {pairs} with \
         {near} among these, {shared} share a band hash.{lower}"
    )
}

/// The share, 0 to 1, of the features of removed near-duplicates that the kept documents lack; none without features.
pub fn missing(lost: Lost) -> Option<f64> {
    (lost.features > 0).then(|| lost.missing as f64 / lost.features as f64)
}

/// A sentence on the share that [`missing`] gives.
pub fn missing_sentence(missing: f64) -> String {
    let share = figures::percent(missing);
    format!(
        "Of the features of the removed near-duplicates, {share} are not in the documents kept for them (estimated)."
    )
}

/// A few sentences on the result of a run of `dedup`: the summary that the command prints.
pub fn closing(report: &Report) -> String {
    let verification = report.settings.as_ref().map_or(Verification::None, |settings| settings.verification);
    let outcome = &report.outcome;
    let all = counted(report.corpus.documents, "document", "documents");
    let clusters = counted(outcome.clusters, "cluster", "clusters");
    let mut text = match outcome.removed {
        0 if report.corpus.documents == 1 => "Kept the only document.".to_owned(),
        0 if outcome.clusters == 0 => format!("Kept all {all}: no duplicates were found."),
        0 => format!("Kept all {all}, with {clusters} of duplicates."),
        removed => format!(
            "Kept {} of {all}. Removed {removed}: {} and {}, in {clusters}.",
            outcome.kept,
            counted(outcome.exact_duplicates, "exact duplicate", "exact duplicates"),
            counted(outcome.near_duplicates, "near-duplicate", "near-duplicates"),
        ),
    };
    if let Some(missing) = report.missing {
        text += &format!("\n{}", missing_sentence(missing));
    }
    if let Some(recall_estimate) = &report.recall_estimate {
        text += &format!("\n{}", recall_sentence(recall_estimate, verification));
    }
    match &report.recall {
        Some(recall) if recall.low >= 1.0 => {
            text.push_str(&format!(
                "\nToo few pairs to be sure of a recall of {:.1} %, so the search made every probe, which is exact.",
                100.0 * recall.wanted
            ));
        }
        Some(recall) => {
            let [reached, low, high, wanted] =
                [recall.reached, recall.low, recall.high, recall.wanted].map(|share| 100.0 * share);
            let pairs = counted(recall.sample_pairs, "held-out pair", "held-out pairs");
            text += &format!("\nRecall {reached:.1} % (95 % interval {low:.1} to {high:.1} %, {pairs}); ");
            text += &format!("{wanted:.1} % was asked for.");
        }
        None if report.recall_estimate.is_some() => {}
        None => {
            if let Some(promise) = promise(report) {
                text += &format!("\n{promise}");
            }
        }
    }
    // A run that compares with leaders counts a pair once for each band that it shares.
    let are_leaders =
        report.recall_estimate.is_some_and(|recall_estimate| recall_estimate.documents.is_some());
    if let (Some(verified), Some(threshold), false) =
        (&report.verified, verification.threshold(), are_leaders)
        && verified.compared > 0
    {
        let (pairs, check) = (counted(verified.compared, "pair", "pairs"), verification.name());
        let confirmed = verified.confirmed();
        text +=
            &format!(" Candidates: {pairs}, of which --verify {check} at {threshold} confirmed {confirmed}.");
    }
    if let Some(BoilerplateReport { by, all, groups, .. }) = &report.boilerplate {
        text.push_str(&format!(
            "\nIgnored boilerplate: {:.1} % of the lines and {:.1} % of the text of {} in {} with three contents or more.",
            per_cent(all.boilerplate_lines, all.lines),
            per_cent(all.boilerplate_bytes, all.bytes),
            counted(all.documents, "document", "documents"),
            by.counted(*groups)
        ));
        if all.whole_documents > 0 {
            let documents = counted(all.whole_documents, "document is", "documents are");
            let were = plural(all.whole_documents, "was", "were");
            text.push_str(&format!(" {documents} of nothing else, and {were} compared whole."));
        }
    }
    if let Some(against) = &report.against {
        text.push_str(&format!("\n{}", reference_message(against)));
    }
    if report.corruption.total > 0 {
        text.push_str(&format!("\n{}", corruption_messages(&report.corruption)));
    }
    text
}

/// A sentence on the reference set and the new documents that are removed for it.
pub fn reference_message(against: &AgainstReport) -> String {
    let AgainstReport { exact, near, documents, files, .. } = against;
    // Texts in memory have no files.
    let files = match files.len() {
        0 => String::new(),
        number => format!(" in {}", counted(number as u64, "file", "files")),
    };
    format!(
        "Compared with {}{files}, unchanged: of the documents removed, {} and {} of these.",
        counted(*documents, "reference document", "reference documents"),
        counted(*exact, "is an exact duplicate", "are exact duplicates"),
        counted(*near, "is a near-duplicate", "are near-duplicates"),
    )
}

/// A few sentences on the result of a comparison: the summary that the command prints.
pub fn comparison(report: &CompareReport) -> String {
    let mut text = format!("{}.", counted(report.corpus.documents, "document", "documents"));
    for method in &report.methods {
        text.push_str(&format!(
            "\n{}: {} of different texts, {}, {} kept",
            method.label,
            counted(method.pairs, "pair", "pairs"),
            counted(method.clusters, "cluster", "clusters"),
            counted(method.kept, "document", "documents"),
        ));
        if let Some(exact) = &method.exact {
            let recall = exact.recall.map_or("too few to measure recall".to_owned(), |recall| {
                let interval = match recall.low < recall.high {
                    true => format!(" [{:.1}, {:.1}]", 100.0 * recall.low, 100.0 * recall.high),
                    false => String::new(),
                };
                format!("recall {:.1} %{interval}", 100.0 * recall.share)
            });
            text.push_str(&format!("\n  {recall}: found {} of {} {}", exact.found, exact.pairs, exact.of));
        }
        if let Some(speed) = &method.speed {
            let (cost, queries) = (&method.cost, figures::count(speed.queries_per_second as u64));
            let each = cost.probes as f64 / cost.distinct_hashes.max(1) as f64;
            text +=
                &format!("\n  {queries} queries per second of processor time, {each:.1} look-ups a query");
            text += &format!(", index of {}", figures::bytes(cost.index_bytes));
        }
    }
    for agreement in report.agreement.iter().filter(|agreement| agreement.pairs > 0) {
        let by = match agreement.found_by.len() {
            2 if report.methods.len() == 2 => "both".to_owned(),
            all if all == report.methods.len() => format!("all {all}"),
            _ => format!("{} alone", agreement.found_by.join(" and ")),
        };
        text.push_str(&format!("\nfound by {by}: {}", counted(agreement.pairs, "pair", "pairs")));
    }
    text
}

/// A warning of `few` documents that have fewer features than the settings ask for, if they ask for several.
pub fn few_features_warning(few: u64, settings: &Settings) -> Option<String> {
    let documents = counted(few, "document has", "documents have");
    let compared = plural(few, "was", "were");
    let advice = match settings.sketches {
        Sketches::Both { .. } => "--min-features 1",
        _ => "--min-features 1 or --method both",
    };
    (few > 0 && settings.min_features > 1).then(|| {
        format!(
            "{documents} fewer than {} features and {compared} compared by exact text alone; {advice} compares {}.",
            settings.min_features,
            plural(few, "it", "them")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_similarity_is_reported_where_it_adds_documents() {
        let text_of = |lower: serde_json::Value| {
            let recall = serde_json::json!({"share": 1.0, "low": 0.9, "high": 1.0});
            let documents = serde_json::json!({"removed": 9, "missed": 0, "recall": recall});
            let recall_estimate = serde_json::json!({
                "sampled": 500, "compared": 9_000, "with_pairs": 3, "pairs": 3, "found": 3, "recall": null,
                "documents": documents, "lower": lower
            });
            recall_sentence(
                &serde_json::from_value(recall_estimate).expect("a recall estimate"),
                Verification::Estimate(0.8),
            )
        };
        let lower = |low: f64| {
            let share = serde_json::json!({"share": 0.04, "low": low, "high": 0.06});
            serde_json::json!({"similarity": 0.7, "more": 20, "share": share})
        };
        assert!(text_of(lower(0.025)).ends_with(
            "\nAnother 4.0 % [2.5, 6.0] of the distinct documents have an earlier near-duplicate at --similarity 0.7."
        ));
        for nothing in [lower(0.009), serde_json::Value::Null] {
            assert!(text_of(nothing).ends_with("share a band hash."));
        }
    }

    #[test]
    fn a_recall_below_what_was_to_be_expected_is_a_warning() {
        let measured = |high: f64| Recall { wanted: 0.95, reached: 0.9, low: 0.8, high, ..Recall::default() };
        let words = recall_warning(Some(&measured(0.93)), None, None).unwrap();
        assert!(words.contains("at most 93.0 %") && words.contains("95.0 %"), "{words}");
        assert_eq!(recall_warning(Some(&measured(0.95)), None, None), None);
        // Bands of so many rows bring together 97 % of the pairs at the threshold.
        let curve = SCurve { probability_at_threshold: 0.97, ..SCurve::default() };
        let estimated = |high: f64| -> RecallEstimate {
            let recall = serde_json::json!({"share": 0.9, "low": 0.8, "high": high});
            serde_json::from_value(serde_json::json!({
                "sampled": 500, "compared": 9_000, "with_pairs": 3, "pairs": 3, "found": 3, "recall": null,
                "documents": {"removed": 9, "missed": 1, "recall": recall}
            }))
            .expect("a recall estimate")
        };
        let of_curve = |high| recall_warning(None, Some(&curve), Some(&estimated(high)));
        assert!(of_curve(0.96).unwrap().contains("97.0 %"));
        assert_eq!((of_curve(0.98), recall_warning(None, None, Some(&estimated(0.1)))), (None, None));
    }

    #[test]
    fn memory_beyond_what_was_allowed_is_reported() {
        let memory =
            MemoryReport { limit_bytes: 65_000_000, expected_documents: 684, ..MemoryReport::default() };
        let warning = |memory: &MemoryReport, peak| memory_warning(memory, peak, 400_200);
        let words = warning(&memory, Some(237_000_000)).unwrap();
        assert!(words.contains("237 MB") && words.contains("65 MB") && words.contains("684"), "{words}");
        assert_eq!([None, Some(65_000_000)].map(|peak| warning(&memory, peak)), [None, None]);
        assert_eq!(warning(&MemoryReport { on_disk: true, ..memory }, Some(237_000_000)), None);
    }
}
