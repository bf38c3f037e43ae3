//! A higher threshold for an existing result, from its tables: nothing is sketched or compared again.

use super::dedup::rows_kept_in;
use super::output::{self, OutputFolder};
use super::sources::lost_by_file;
use super::stages::Progress;
use super::with_threads;
use crate::corpus::{self, DiscoverOptions, Input, ReadOptions, discover};
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::hash::feature;
use crate::report::model::{ClusterSizes, Derived, FileRow, Outcome, PairKind, Report, Tool, write_json};
use crate::report::{html, messages};
use crate::tables::table::Table;
use crate::tables::{self, ClusterRow, DocumentRow, PairRow, REMOVED, TableRow};
use crate::wording::counted;
use csv::StringRecord;
use hashbrown::{HashMap, HashSet};
use simflip_core::clusters::Partition;
use simflip_core::id::{Document, Id};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A document of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its cluster.
    pub cluster: u32,
    /// True if it is kept.
    pub kept: bool,
    /// True if it is one of the reference set.
    pub old: bool,
}

/// A pair of members that a result lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberPair {
    /// Places of the two among the members.
    pub members: [usize; 2],
    /// Their similarity, 0 to 1.
    pub similarity: f32,
    /// True if their texts are the same.
    pub kind: PairKind,
}

/// The assignment of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assigned {
    /// Number and size of its cluster; none where it is alone.
    pub cluster: Option<(u32, u32)>,
    /// Place of the member that is kept for it; its own, if it is kept.
    pub stays: usize,
    /// Similarity to that one; none for itself.
    pub similarity: Option<f32>,
}

/// Raises the threshold of clusters, each of which keeps one document or those of the reference set. A text that is
/// less similar than `similarity` to the one that is kept for it leaves its cluster, and one of its copies is kept.
///
/// # Errors
/// [`Error::Core`] if a text was not compared with one that is kept for it.
pub fn raised(members: &[Member], pairs: &[MemberPair], similarity: f32) -> Result<Vec<Assigned>> {
    let mut texts = Partition::singletons(members.len());
    for pair in pairs.iter().filter(|pair| pair.kind == PairKind::Exact) {
        let [a, b] = pair.members.map(Document::at);
        texts.join(a, b);
    }
    let text_of: Vec<usize> = Document::all(members.len()).map(|at| texts.find(at).index()).collect();
    let mut kept_of: Vec<Option<usize>> = vec![None; members.len()];
    for (at, _) in members.iter().enumerate().filter(|(_, member)| member.kept) {
        kept_of[text_of[at]].get_or_insert(at);
    }
    // Of each text that is removed: its copy that was compared, the kept document, and their similarity.
    let mut nearest: Vec<Option<(usize, usize, f32)>> = vec![None; members.len()];
    for pair in pairs.iter().filter(|pair| pair.kind == PairKind::Near) {
        let [a, b] = pair.members;
        for (copy, other) in [(a, b), (b, a)] {
            let (None, Some(kept)) = (kept_of[text_of[copy]], kept_of[text_of[other]]) else { continue };
            let best = &mut nearest[text_of[copy]];
            let is_better = best.is_none_or(|(of, _, most)| (-pair.similarity, copy) < (-most, of));
            if members[a].cluster == members[b].cluster && is_better {
                *best = Some((copy, kept, pair.similarity));
            }
        }
    }
    let mut assigned = Vec::with_capacity(members.len());
    for (at, member) in members.iter().enumerate() {
        let text = text_of[at];
        let copy_of = |kept: usize| (kept, (kept != at).then_some(1.0));
        assigned.push(match (kept_of[text], nearest[text]) {
            (Some(_), _) if member.kept => (None, (at, None)),
            (Some(kept), _) => (None, copy_of(kept)),
            (None, Some((copy, _, alike))) if alike < similarity => (Some(text), copy_of(copy)),
            (None, Some((_, kept, alike))) => (None, (kept, Some(alike))),
            (None, None) => {
                return Err(Error::parameter(
                    "similarity",
                    similarity,
                    "a result in which each removed document was compared with the one that is kept for it, and not \
                     one of a chain (--clusters connected) or of equal sketches (--verify none). Run dedup with the \
                     new threshold",
                ));
            }
        });
    }
    // A text that left is a cluster of its own copies. A cluster of one document is none, nor one of old documents.
    let cluster = |at: usize| (members[at].cluster, assigned[at].0);
    let mut sizes: HashMap<_, (u32, bool)> = HashMap::new();
    for (at, member) in members.iter().enumerate() {
        let (size, has_new) = sizes.entry(cluster(at)).or_default();
        *size += 1;
        *has_new |= !member.old;
    }
    let mut numbers = HashMap::new();
    let number = |at: usize| {
        let (size, has_new) = sizes[&cluster(at)];
        let next = numbers.len() as u32;
        (size > 1 && has_new).then(|| (*numbers.entry(cluster(at)).or_insert(next), size))
    };
    let clusters: Vec<_> = (0..members.len()).map(number).collect();
    let of = |(cluster, (_, (stays, similarity)))| Assigned { cluster, stays, similarity };
    Ok(clusters.into_iter().zip(assigned).map(of).collect())
}

/// A threshold to raise, and where the new result goes.
#[derive(Clone, Debug, Default)]
pub struct RethresholdJob {
    /// The folder that [`super::dedup()`] wrote.
    pub result: PathBuf,
    /// The new threshold, at least the one of the result and at most 1.
    pub similarity: f64,
    /// The folder to make.
    pub out: PathBuf,
    /// True if an earlier result of that name is replaced.
    pub force: bool,
    /// True if the kept documents are copied from the input, which is read once for that.
    pub kept: bool,
    /// The options of reading the input, as for the result.
    pub options: ReadOptions,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// The command as typed, for the report.
    pub command_line: Vec<String>,
    /// When it began, RFC 3339, for the report.
    pub created: String,
}

/// Derives a result with a higher threshold from an earlier one: pairs.csv, clusters.csv, removed.csv and the report.
/// Gives the report.
///
/// # Errors
/// If the folder is no result of `dedup`, or one whose tables say too little; if the threshold is not higher; or if the
/// new folder cannot be written.
pub fn rethreshold(job: &RethresholdJob, progress: &dyn Progress) -> Result<Report> {
    let before = Report::of_result(&job.result)?;
    let mut report = settled(&before, job)?;
    let folder = OutputFolder::begin(&job.out, job.force)?;
    output::spare(&job.out, [&*job.result])?;
    let tables = ResultTables::read(&job.result, &before.all_files())?;
    let assigned = raised(&tables.members, &tables.pairs, job.similarity as f32)?;
    let pairs_written = tables.write(&job.result, &assigned, job.similarity, folder.path())?;
    tables.count(&assigned, &mut report);
    report.outcome.pairs_written = pairs_written;
    report.outcome.pairs_found = pairs_written;
    if job.kept {
        with_threads(job.threads, || {
            tables.write_kept(job, &assigned, &mut report, folder.path(), progress)
        })??;
    }
    report.warnings.extend(messages::sources_warnings(&report.lost_by_source));
    report.warnings.iter().for_each(|warning| progress.note(warning));
    report.warnings.extend(corpus::PassedOver { list: report.not_read.clone() }.message());
    report.written = output::manifest(folder.path())?;
    write_json(&report, &folder.path().join("report.json"))?;
    html::write(&html::render(&report)?, &folder.path().join("report.html"))?;
    folder.finish()?;
    Ok(report)
}

/// The pairs of different texts that a result lists, the least similar first: the rows of its pairs.csv, at most
/// `most`, ties as they are listed.
///
/// # Errors
/// If the table cannot be read.
pub fn least_similar(result: &Path, most: usize) -> Result<Vec<(f64, [String; 2])>> {
    Report::of_result(result)?;
    let mut reader = tables::PairsReader::open(&result.join("pairs.csv"))?;
    let mut least: Vec<(f64, [String; 2])> = Vec::new();
    while let Some(row) = reader.next_row()? {
        let (PairKind::Near, Some(similarity)) = (row.kind(), row.similarity()?) else { continue };
        let place = least.partition_point(|(other, _)| *other <= similarity);
        if place < most {
            least.insert(place, (similarity, [row.a_id(), row.b_id()].map(str::to_owned)));
            least.truncate(most);
        }
    }
    Ok(least)
}

/// The report as far as the threshold decides it, without counts.
fn settled(before: &Report, job: &RethresholdJob) -> Result<Report> {
    let refused = |expected: String| Err(Error::parameter("similarity", job.similarity, expected));
    let Some((mut settings, searched)) = before.settings.clone().zip(before.searched.clone()) else {
        return refused("a result whose report.json has settings. Run simflip dedup again".to_owned());
    };
    let Some(threshold) = settings.verification.threshold() else {
        return refused(
            "a result whose pairs were verified, which --verify none does not, nor --method minhash by itself. Run dedup \
             with the new threshold"
                .to_owned(),
        );
    };
    if !(threshold..=1.0).contains(&job.similarity) {
        return refused(format!(
            "{threshold} to 1, for this result was made with {threshold} and holds no pair below. Run dedup with \
             --similarity {}",
            job.similarity
        ));
    }
    if !settings.quota.is_one() {
        return refused(
            "a result that keeps one document of each cluster, without --keep-count and --keep-each. Run dedup with the \
             new threshold"
                .to_owned(),
        );
    }
    settings.verification = settings.verification.with_threshold(job.similarity);
    let frequencies = before.frequencies.as_deref();
    Ok(Report {
        tool: Tool::this(),
        created: job.created.clone(),
        command_line: job.command_line.clone(),
        fingerprint: None,
        method: messages::method(&settings, frequencies, &searched, None),
        s_curve: messages::s_curve(&settings, &searched),
        settings: Some(settings),
        derived: Some(Derived {
            result: job.result.clone(),
            created: before.created.clone(),
            command_line: before.command_line.clone(),
            threshold,
        }),
        // These were measured at the threshold of the run.
        recall: None,
        verified: None,
        recall_estimate: None,
        missing: None,
        memory: None,
        stages: Vec::new(),
        peak_memory_bytes: None,
        largest_clusters: Vec::new(),
        sample_pairs: before
            .sample_pairs
            .iter()
            .filter(|pair| pair.similarity >= job.similarity)
            .cloned()
            .collect(),
        warnings: vec![format!(
            "This result was derived: the threshold of {} was raised from {threshold} to {}. It only takes \
             removals back: a new run may keep other documents, and estimates its recall.",
            job.result.display(),
            job.similarity
        )],
        ..before.clone()
    })
}

/// The tables of a result as far as they are needed.
struct ResultTables {
    header: StringRecord,
    /// The rows of clusters.csv.
    rows: Vec<StringRecord>,
    members: Vec<Member>,
    /// Of each, the place of its file among those of the report, and its row there.
    places: Vec<(usize, u32)>,
    /// Where each stands, by the hash of its id.
    by_id: HashMap<u64, usize>,
    /// The pairs between members.
    pairs: Vec<MemberPair>,
}

/// The column of clusters.csv that names the file; the columns are [`ClusterRow::COLUMNS`].
const FILE: usize = 5;

impl ResultTables {
    fn read(result: &Path, files: &[FileRow]) -> Result<Self> {
        let path = result.join("clusters.csv");
        let mut table = Table::open_ours(&path)?;
        table.begins_with(ClusterRow::COLUMNS)?;
        let files: HashMap<&str, usize> = files.iter().map(|file| &*file.path).zip(0..).collect();
        let (mut rows, mut members, mut row) = (Vec::new(), Vec::new(), StringRecord::new());
        let (mut clusters, mut by_id, mut places) = (HashMap::new(), HashMap::new(), Vec::new());
        while let Some(line) = table.next(&mut row)? {
            let standing = files.get(&row[FILE]).copied().zip(row[FILE + 1].parse().ok());
            let (Some(place), Ok(kept)) = (standing, row[4].parse()) else {
                let got =
                    format!("kept {:?} and the document {:?}:{:?}", &row[4], &row[FILE], &row[FILE + 1]);
                return Err(table.error(
                    line,
                    got,
                    "true or false, and a document of a file that report.json names",
                ));
            };
            let next = clusters.len() as u32;
            let cluster = *clusters.entry(row[2].to_owned()).or_insert(next);
            by_id.insert(feature(row[0].as_bytes()), members.len());
            members.push(Member { cluster, kept, old: &row[7] == "old" });
            places.push(place);
            rows.push(row.clone());
        }
        let mut reader = tables::PairsReader::open(&result.join("pairs.csv"))?;
        let mut pairs = Vec::new();
        while let Some(row) = reader.next_row()? {
            let [a, b] = [row.a_id(), row.b_id()].map(|id| by_id.get(&feature(id.as_bytes())).copied());
            let Some(similarity) = row.similarity()? else {
                return Err(row.error("a pair without similarity", "a number"));
            };
            if let (Some(a), Some(b)) = (a, b) {
                pairs.push(MemberPair { members: [a, b], similarity: similarity as f32, kind: row.kind() });
            }
        }
        Ok(Self { header: table.header().clone(), rows, members, places, by_id, pairs })
    }

    /// Writes the three tables, and gives the number of pairs.
    fn write(&self, result: &Path, assigned: &[Assigned], similarity: f64, to: &Path) -> Result<u64> {
        let mut order: Vec<(u32, usize)> = assigned
            .iter()
            .enumerate()
            .filter_map(|(at, assigned)| Some((assigned.cluster?.0, at)))
            .collect();
        order.sort_unstable();
        let rows = order.iter().map(|&(_, at)| {
            let (number, size) = assigned[at].cluster.unwrap_or_default();
            let kept = assigned[at].stays == at || self.members[at].old;
            let cells = [number.to_string(), size.to_string(), kept.to_string()];
            Ok(self.rows[at]
                .iter()
                .enumerate()
                .map(|(column, cell)| cells.get(column.wrapping_sub(2)).map_or(cell, |cell| cell))
                .collect())
        });
        tables::write_cells(&to.join("clusters.csv"), &self.header, rows)?;
        let mut removed = self.removed(assigned).collect::<Vec<_>>();
        removed.sort_unstable_by_key(|&at| self.places[at]);
        let row = |at: usize| {
            let (own, Assigned { cluster, stays, similarity }) = (&self.rows[at], assigned[at]);
            Ok(DocumentRow {
                file: Cow::Borrowed(&own[FILE]),
                row: self.places[at].1,
                id: Cow::Borrowed(&own[0]),
                url: Cow::Borrowed(&own[1]),
                cluster: cluster.map(|(number, _)| number),
                size: cluster.map_or(1, |(_, size)| size).into(),
                kept: false,
                stays: Cow::Borrowed(&self.rows[stays][0]),
                similarity: similarity.map(f64::from),
            })
        };
        tables::write(&to.join(REMOVED), removed.into_iter().map(row))?;
        let mut table = Table::open_ours(&result.join("pairs.csv"))?;
        table.begins_with(&PairRow::COLUMNS[..6])?;
        let header = table.header().clone();
        // Two documents that were removed, and are both kept now, may be near each other: no cluster has them.
        let is_in_cluster = |id: &str| {
            let member = self.by_id.get(&feature(id.as_bytes()));
            member.is_some_and(|&at| assigned[at].cluster.is_some())
        };
        let mut row = StringRecord::new();
        let mut next = || -> Result<Option<StringRecord>> {
            while table.next(&mut row)?.is_some() {
                // Reading them before has seen to it that there are numbers.
                let is_near = row[5].trim().parse().is_ok_and(|alike: f64| alike >= similarity);
                if is_near && (is_in_cluster(&row[0]) || is_in_cluster(&row[1])) {
                    return Ok(Some(row.clone()));
                }
            }
            Ok(None)
        };
        tables::write_cells(&to.join("pairs.csv"), &header, std::iter::from_fn(|| next().transpose()))
    }

    /// The members that are removed.
    fn removed<'a>(&'a self, assigned: &'a [Assigned]) -> impl Iterator<Item = usize> + 'a {
        (0..assigned.len()).filter(|&at| assigned[at].stays != at && !self.members[at].old)
    }

    /// Counts what became of documents, files and folders.
    fn count(&self, assigned: &[Assigned], report: &mut Report) {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut seen, mut by_old, mut old_members) = (HashSet::new(), HashSet::new(), 0);
        for (member, assigned) in self.members.iter().zip(assigned) {
            let Some((number, size)) = assigned.cluster else { continue };
            if seen.insert(number) {
                *sizes.entry(size.into()).or_default() += 1;
            }
            if member.old {
                by_old.insert(number);
                old_members += 1;
            }
        }
        let mut lost: HashMap<&str, u64> = HashMap::new();
        let (mut removed, mut for_old) = (0, 0);
        for at in self.removed(assigned) {
            removed += 1;
            for_old += u64::from(self.members[assigned[at].stays].old);
            *lost.entry(&self.rows[at][FILE]).or_default() += 1;
        }
        let of_all = report.corpus.documents;
        let exact = report.outcome.exact_duplicates.min(removed);
        report.outcome = Outcome {
            exact_duplicates: exact,
            near_duplicates: removed - exact,
            kept: of_all - removed.min(of_all),
            removed,
            clusters: seen.len() as u64,
            documents_in_clusters: sizes.iter().map(|(size, clusters)| size * clusters).sum(),
            ..Outcome::default()
        };
        report.cluster_sizes =
            sizes.into_iter().map(|(size, clusters)| ClusterSizes { size, clusters }).collect();
        if let Some(against) = &mut report.against {
            against.near = for_old - against.exact.min(for_old);
            against.clusters = by_old.len() as u64;
            against.documents_in_clusters = old_members;
        }
        for file in &mut report.files {
            file.kept = file.documents - lost.get(&*file.path).copied().unwrap_or(0).min(file.documents);
            (file.kept_in, file.kept_to) = (None, None);
        }
        let files = report.files.iter().map(|file| (Path::new(&file.path), file.documents, file.kept));
        report.lost_by_source = lost_by_file(files).into();
    }

    /// Copies the kept documents from the input.
    fn write_kept(
        &self,
        job: &RethresholdJob,
        assigned: &[Assigned],
        report: &mut Report,
        to: &Path,
        progress: &dyn Progress,
    ) -> Result<()> {
        let refused = |why: String| {
            let expected = format!("a result whose input files are there as they were; {why}");
            Error::parameter("result", job.result.display(), expected)
        };
        let mut options = job.options.clone();
        options.fields = report.fields(options.fields);
        options.threads = rayon::current_num_threads();
        let files: Vec<&FileRow> = report.files.iter().filter(|row| !row.is_dispensable()).collect();
        let paths: Vec<PathBuf> = files.iter().map(|file| PathBuf::from(&file.path)).collect();
        if let Some(why) = paths.iter().find_map(|path| corpus::gone(path)) {
            return Err(refused(why));
        }
        let discovery = DiscoverOptions { fields: options.fields.clone(), ..DiscoverOptions::default() };
        let inputs = discover(&paths, &discovery)?;
        let names: Vec<String> = inputs.iter().map(|input| input.path.display().to_string()).collect();
        let shards: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let place = |at: usize| Some(DocId::new(*shards.get(&self.rows[at][FILE])?, self.places[at].1));
        let removed: HashSet<DocId> = self.removed(assigned).filter_map(place).collect();
        let stored: u64 = inputs.iter().map(Input::stored_bytes).sum();
        let sort = |(kept, removed_bytes): &mut (Vec<_>, u64), document: corpus::Document<'_>| {
            if removed.contains(&document.id) {
                *removed_bytes += document.text.len() as u64;
                return;
            }
            kept.push((document.id, document.place));
        };
        let reading = progress.during("read", stored.max(1), "bytes", |advance| {
            corpus::read_and_sum(&inputs, &options, || (Vec::new(), 0), sort, advance)
        });
        let changed = FileRow::changed(&report.files, names.iter().zip(&reading.files));
        if changed.is_some() || names.len() != files.len() {
            let file =
                changed.map_or_else(|| "one of them".to_owned(), |file| file.path.display().to_string());
            return Err(refused(format!("{file} has changed, or was read with other options")));
        }
        let mut kept = Vec::new();
        for (of_worker, bytes) in reading.workers {
            kept.extend(of_worker);
            report.outcome.removed_text_bytes += bytes;
        }
        kept.sort_unstable_by_key(|(id, _)| *id);
        let files = corpus::KeptFiles::default();
        let writing = corpus::KeptJob {
            files,
            inputs: &inputs,
            options: &options,
            kept: &kept,
            is_same: &|_, _| false,
        };
        let written = writing.write(to)?;
        if let Some(lost) = written.lost.first() {
            return Err(refused(format!(
                "{} of them changed: {lost}",
                counted(written.lost.len() as u64, "document", "documents")
            )));
        }
        let rows: HashMap<String, usize> =
            report.files.iter().enumerate().map(|(at, file)| (file.path.clone(), at)).collect();
        rows_kept_in(&mut report.files, &written.files, |shard| rows[&names[shard as usize]]);
        Ok(())
    }
}
