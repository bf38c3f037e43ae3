//! Stages make what a run in memory makes, however the work is split.

use crate::cli::{corpus, simflip};
#[cfg(target_os = "linux")]
use crate::place::{ends_by, is_caught};
use proptest::prelude::*;
use simflip::clusters::{Keep, Linkage};
use simflip::core::dedup::{Context, Deduper, Outcome};
use simflip::corpus::{DiscoverOptions, KeptFiles, ReadOptions, discover, read};
use simflip::hash::SplitMix64;
use simflip::pipeline::{Progress, Silent};
use simflip::search::bands::Banding;
use simflip::settings::{Settings, Sketches};
use simflip::staged::{
    self, ApplyJob, ClusterJob, Clustered, Grouping, Joined, Outputs, Shard, SketchJob, Sketched,
};
use simflip::{Document, Error, Id};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The notes of a stage.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Progress for Notes {
    fn begin(&self, _stage: &str, _total: u64, _unit: &str) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn note(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

/// Documents in families, each a text of the family with some words changed; copies; documents of a word; and, if there
/// is a template, so many documents of it.
pub fn texts(documents: usize, template: usize, seed: u64) -> Vec<String> {
    let mut rng = SplitMix64::new(seed);
    let words = |rng: &mut SplitMix64, n: u64| -> Vec<String> {
        (0..n).map(|_| format!("w{}", rng.below(4000))).collect()
    };
    let families: Vec<Vec<String>> = (0..documents / 6 + 1).map(|_| words(&mut rng, 60)).collect();
    let line = words(&mut rng, 90);
    let mut texts: Vec<String> = Vec::new();
    for at in 0..documents + template {
        if !texts.is_empty() && rng.below(8) == 0 {
            let copied = rng.below(texts.len() as u64) as usize;
            texts.push(texts[copied].clone());
        } else if rng.below(20) == 0 {
            texts.push(["", "one", "two words"][rng.below(3) as usize].to_owned());
        } else if at >= documents {
            let mut text = line.clone();
            text.extend(words(&mut rng, 2));
            texts.push(text.join(" "));
        } else {
            let mut text = families[rng.below(families.len() as u64) as usize].clone();
            for _ in 0..rng.below(4) {
                let place = rng.below(text.len() as u64) as usize;
                text[place] = format!("w{}", rng.below(4000));
            }
            // Some are the first part of others.
            if rng.below(4) == 0 {
                text.truncate(30 + rng.below(30) as usize);
            }
            texts.push(text.join(" "));
        }
    }
    texts
}

/// Writes the texts to files of different kinds.
pub fn write_files(folder: &Path, texts: &[String], files: usize) -> Vec<PathBuf> {
    fs::create_dir_all(folder).unwrap();
    let mut paths = Vec::new();
    for (number, part) in texts.chunks(texts.len().div_ceil(files)).enumerate() {
        let line = |(row, text): (usize, &String)| {
            // The order of URLs, which decides among copies, is that of places.
            let (id, url) = (format!("{number}/{row}"), format!("https://site.example/{number:02}/{row:05}"));
            serde_json::json!({"id": id, "url": url, "text": text}).to_string() + "\n"
        };
        let lines: String = part.iter().enumerate().map(line).collect();
        let path = folder.join(format!("documents {number:02}.jsonl"));
        fs::write(&path, lines).unwrap();
        paths.push(path);
    }
    paths
}

/// Every text of some files, in order.
fn read_texts(paths: &[PathBuf]) -> Vec<String> {
    let inputs = discover(paths, &DiscoverOptions::default()).unwrap();
    let add = |all: &mut Vec<_>, document: simflip::corpus::Document<'_>| {
        all.push((document.id, document.text.to_owned()))
    };
    let mut all =
        read(&inputs, &ReadOptions { threads: 1, ..ReadOptions::default() }, Vec::new, add, &|_| ());
    let mut all = std::mem::take(&mut all.workers[0]);
    all.sort();
    all.into_iter().map(|(_, text)| text).collect()
}

fn in_memory(texts: &[String], settings: &Settings) -> Outcome {
    let mut deduper = Deduper::new(settings.clone()).unwrap();
    deduper.extend(texts);
    deduper.run().unwrap()
}

/// How stages are run.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    shards: usize,
    threads: usize,
    memory: u64,
}

pub fn sketch_job(paths: &[PathBuf], out: &Path, settings: &Settings, machine: Machine) -> SketchJob {
    SketchJob {
        inputs: paths.to_vec(),
        options: ReadOptions::default(),
        out: out.to_path_buf(),
        force: false,
        memory: None,
        threads: machine.threads,
        shard: Shard::default(),
        settings: settings.clone(),
        boilerplate: None,
    }
}

fn cluster_job(sketches: &Path) -> ClusterJob {
    ClusterJob {
        sketches: sketches.to_path_buf(),
        against: Vec::new(),
        grouping: Grouping::of(Linkage::Star),
        memory: None,
        threads: 1,
    }
}

/// Containment decides.
fn quick_removable() -> Settings {
    Settings::removable().with(|s| s.sketches = quick(0.8).sketches)
}

/// The usual rules for these sketches.
fn grouping(linkage: Linkage, sketches: &Path) -> Grouping {
    let keep = staged::settings_of(sketches).unwrap().verification.usual_keep();
    Grouping { keep, ..Grouping::of(linkage) }
}

fn part(number: usize, machine: Machine) -> Shard {
    format!("{}/{}", number + 1, machine.shards).parse().unwrap()
}

/// Sketches, each part in a folder of its own at first.
fn sketch_in_parts(paths: &[PathBuf], out: &Path, settings: &Settings, machine: Machine) {
    let shards = machine.shards;
    fs::create_dir_all(out).unwrap();
    for number in 0..shards {
        let own = out.with_extension(number.to_string());
        let job = SketchJob { shard: part(number, machine), ..sketch_job(paths, &own, settings, machine) };
        staged::sketch(&job, &Silent).unwrap();
        for entry in fs::read_dir(&own).unwrap() {
            let entry = entry.unwrap();
            fs::rename(entry.path(), out.join(entry.file_name())).unwrap();
        }
    }
}

/// Joins, the last part first.
fn join_in_parts(out: &Path, against: &[PathBuf], linkage: Linkage, machine: Machine) -> Joined {
    let Machine { shards, threads, memory } = machine;
    let join = |number| {
        let (sketches, against, memory) = (out.to_path_buf(), against.to_vec(), Some(memory));
        let job = ClusterJob { sketches, against, grouping: grouping(linkage, out), memory, threads };
        staged::join(&job, part(number, machine), &Silent).unwrap()
    };
    let mut joined = join(shards - 1);
    for number in (0..shards - 1).rev() {
        joined = join(number);
    }
    joined
}

fn clusters_and_kept(
    paths: &[PathBuf],
    sketches: &Path,
    against: &[PathBuf],
    out: &Path,
    linkage: Linkage,
    machine: Machine,
) -> Clustered {
    let Machine { shards, threads, memory } = machine;
    let (of, against, memory) = (sketches.to_path_buf(), against.to_vec(), Some(memory));
    let grouping = grouping(linkage, sketches);
    let job =
        ClusterJob { sketches: of, against: against.clone(), grouping: grouping.clone(), memory, threads };
    let clustered = staged::cluster(&job, &Silent).unwrap();
    for number in 0..shards {
        let job = ApplyJob {
            sketches: sketches.to_path_buf(),
            against: against.clone(),
            inputs: paths.to_vec(),
            out: out.to_path_buf(),
            grouping: grouping.clone(),
            writes: Outputs { kept: true, removed: true },
            kept_files: KeptFiles::Each,
            memory: None,
            threads,
            shard: format!("{}/{shards}", number + 1).parse().unwrap(),
        };
        staged::apply(&job, &Silent).unwrap();
    }
    clustered
}

/// Every file below a folder, by its name.
pub fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                all.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    all
}

/// Holds all that stages make against a run in memory.
fn assert_same(paths: &[PathBuf], top: &Path, settings: &Settings, machine: Machine) {
    let texts = read_texts(paths);
    let sketches = top.join("sketches");
    sketch_in_parts(paths, &sketches, settings, machine);
    for linkage in [Linkage::Star, Linkage::Connected] {
        let settings = settings.clone().with(|settings| settings.linkage = linkage);
        if settings.check().is_err() {
            continue;
        }
        let outcome = in_memory(&texts, &settings);
        join_in_parts(&sketches, &[], linkage, machine);
        let kept = top.join(linkage.name());
        let clustered = clusters_and_kept(paths, &sketches, &[], &kept, linkage, machine);
        assert_eq!(clustered.recall_estimate, outcome.recall_estimate, "{machine:?}");
        assert_eq!(clustered.exact_duplicates, outcome.exact_duplicates as u64, "{machine:?}");
        assert_eq!(Some(clustered.statistics.into()), outcome.verified, "{machine:?}");
        let is_kept = outcome.kept_mask();
        let expected: Vec<String> = texts
            .iter()
            .zip(&is_kept)
            .filter(|(_, is_kept)| **is_kept)
            .map(|(text, _)| text.clone())
            .collect();
        let mut files: Vec<PathBuf> =
            fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end != "csv" && end != "note"));
        let mut got = read_texts(&files);
        // Files of kept documents are called by hashes; the order among them is not that of the inputs.
        let mut expected = expected;
        got.sort();
        expected.sort();
        assert!(got == expected, "{} documents stay, {} expected: {machine:?}", got.len(), expected.len());
        assert_eq!(removed(&kept), gone(&outcome, paths), "{machine:?}");
    }
}

type Removed = Vec<(String, u32, u64, u64, String)>;

/// File, row, cluster, size and the document that stays of every document that goes, as the lists say.
fn removed(folder: &Path) -> Removed {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "csv") {
            continue;
        }
        let mut table = csv::Reader::from_path(&path).unwrap();
        for row in table.deserialize::<BTreeMap<String, String>>() {
            let row = row.unwrap();
            let number = |name: &str| row[name].parse::<u64>().unwrap();
            rows.push((
                row["file"].clone(),
                number("row") as u32,
                number("cluster"),
                number("size"),
                row["representative"].clone(),
            ));
        }
    }
    rows.sort();
    rows
}

/// The same, of a run in memory.
fn gone(outcome: &Outcome, paths: &[PathBuf]) -> Removed {
    let mut places = Vec::new();
    for path in paths {
        let real = fs::canonicalize(path).unwrap().display().to_string();
        let documents = read_texts(std::slice::from_ref(path)).len();
        places.extend((0..documents as u32).map(|row| (real.clone(), row)));
    }
    let mut rows = Vec::new();
    for (cluster, (members, kept)) in outcome.clusters.iter().zip(&outcome.representatives).enumerate() {
        let (file, row) = &places[kept.index()];
        let representative = format!("{file}:{row}");
        for member in members.iter().filter(|member| *member != kept) {
            let (file, row) = places[member.index()].clone();
            rows.push((file, row, cluster as u64, members.len() as u64, representative.clone()));
        }
    }
    rows.sort();
    rows
}

/// Compares new documents with a reference set, in stages and in memory.
fn assert_same_against(
    texts: &[String],
    first_reference: usize,
    files: [usize; 2],
    top: &Path,
    settings: &Settings,
    machine: Machine,
) {
    let (new, old) = texts.split_at(first_reference);
    let reference_paths = write_files(&top.join("old"), old, files[1]);
    let reference_sketches: Vec<PathBuf> =
        (0..reference_paths.len().min(2)).map(|at| top.join(format!("old {at}"))).collect();
    for (at, path) in reference_paths.iter().enumerate() {
        let to = &reference_sketches[at % reference_sketches.len()];
        staged::sketch(&sketch_job(std::slice::from_ref(path), to, settings, ONE), &Silent).unwrap();
    }
    let paths = write_files(&top.join("new"), new, files[0]);
    let sketches = top.join("sketches");
    sketch_in_parts(&paths, &sketches, settings, machine);
    for linkage in [Linkage::Star, Linkage::Connected] {
        let settings = settings.clone().with(|settings| settings.linkage = linkage);
        if settings.check().is_err() {
            continue;
        }
        let mut deduper = Deduper::new(settings).unwrap();
        deduper.extend(texts);
        let outcome = deduper.run_with(&Context::default().against(first_reference)).unwrap();
        let joined = join_in_parts(&sketches, &reference_sketches, linkage, machine);
        assert_eq!((joined.documents, joined.reference_documents), (new.len() as u64, old.len() as u64));
        let kept = top.join(linkage.name());
        let clustered = clusters_and_kept(&paths, &sketches, &reference_sketches, &kept, linkage, machine);
        let members = outcome.clusters.values().len() as u64;
        assert_eq!(
            (clustered.documents, clustered.clusters, clustered.in_clusters, clustered.removed),
            (new.len() as u64, outcome.clusters.len() as u64, members, outcome.removed() as u64),
            "{linkage:?} {machine:?}"
        );
        let mut expected: Vec<&String> = outcome.kept().map(|document| &texts[document.index()]).collect();
        let mut files: Vec<PathBuf> =
            fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end != "csv" && end != "note"));
        let mut got = read_texts(&files);
        got.sort();
        expected.sort();
        assert!(got.iter().eq(expected), "{linkage:?} {machine:?}");
        // What stays for a document that goes is reported, and is a reference document where there is one.
        let is_reference = |representative: &str| representative.contains("/old/");
        let by_reference =
            removed(&kept).iter().filter(|(.., representative)| is_reference(representative)).count();
        let goes_for_reference = |(members, representative): (&[Document], &Document)| match outcome
            .is_reference(*representative)
        {
            true => members.iter().filter(|member| !outcome.is_reference(**member)).count(),
            false => 0,
        };
        let expected =
            outcome.clusters.iter().zip(&outcome.representatives).map(goes_for_reference).sum::<usize>();
        assert_eq!(by_reference, expected, "{linkage:?}");
    }
    let names = contents(&sketches);
    for path in names.keys().map(|name| sketches.join(name)).chain([sketches.clone()]) {
        let (inspection, name) = (simflip::inspect::inspect(&path).unwrap(), path.display());
        assert!(inspection.problems.is_empty(), "{name}: {:?}", inspection.problems);
    }
}

/// Few keys, so that stages take little time.
pub fn quick(similarity: f64) -> Settings {
    let sketches = Sketches::Both { bits: 256, banding: Banding { bands: 4, rows: 3 } };
    Settings::both(similarity).with(|settings| settings.sketches = sketches)
}

pub const ONE: Machine = Machine { shards: 1, threads: 1, memory: 1 << 30 };
const SMALL: u64 = 46 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn stages_make_what_memory_makes(
        documents in 1usize..160, files in prop::sample::select(vec![1usize, 2, 5, 30]), seed: u64,
        similarity in prop::sample::select(vec![0.6, 0.8]),
        removable: bool, shards in prop::sample::select(vec![1usize, 2, 7]), threads in 1usize..4,
    ) {
        let top = tempfile::tempdir().unwrap();
        let paths = write_files(&top.path().join("crawl"), &texts(documents, 0, seed), files);
        let settings = match removable {
            true => quick_removable(),
            false => quick(similarity),
        };
        assert_same(&paths, top.path(), &settings, Machine { shards, threads, memory: SMALL });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_old_sketches_hold_goes_from_new_documents_as_in_memory(
        documents in 2usize..200, old in 1usize..100, files in prop::sample::select(vec![1usize, 3, 30]),
        old_files in prop::sample::select(vec![1usize, 2, 20]), seed: u64,
        removable: bool, shards in prop::sample::select(vec![1usize, 3]), threads in 1usize..3,
    ) {
        let top = tempfile::tempdir().unwrap();
        let first_reference = documents - (documents * old / 100).clamp(1, documents - 1);
        let settings = match removable {
            true => quick_removable(),
            false => quick(0.6),
        };
        let machine = Machine { shards, threads, memory: SMALL };
        assert_same_against(&texts(documents, 0, seed), first_reference, [files, old_files], top.path(), &settings, machine);
    }
}

#[test]
fn new_documents_of_an_old_template_go() {
    let top = tempfile::tempdir().unwrap();
    let mut texts = texts(100, 700, 9);
    // Those of the template are among both.
    texts.rotate_left(350);
    let machine = Machine { shards: 1, threads: 2, memory: SMALL };
    assert_same_against(&texts, 420, [2, 3], top.path(), &quick(0.8), machine);
    let sketches = top.path().join("sketches");
    let reported = |job: &ClusterJob| staged::join(job, Shard::default(), &Silent).unwrap_err().to_string();
    let against = |path: &Path| ClusterJob { against: vec![path.to_path_buf()], ..cluster_job(&sketches) };
    assert!(reported(&against(&sketches)).contains("another folder"));
    let other = top.path().join("other");
    let paths = write_files(&top.path().join("others"), &texts[..5], 1);
    staged::sketch(&sketch_job(&paths, &other, &quick(0.7), ONE), &Silent).unwrap();
    assert!(reported(&against(&other)).contains("the settings"));
    // Without them it is another whole, of which nothing is there yet.
    assert!(
        staged::cluster(&cluster_job(&sketches), &Silent).unwrap_err().to_string().contains("simflip join")
    );
}

#[test]
fn a_template_is_joined_in_stages_as_in_memory() {
    let top = tempfile::tempdir().unwrap();
    let paths = write_files(&top.path().join("crawl"), &texts(200, 900, 4), 3);
    let settings = quick(0.8);
    assert_same(&paths, top.path(), &settings, Machine { shards: 2, threads: 2, memory: SMALL });
    let job = cluster_job(&top.path().join("sketches"));
    let again = staged::join(&job, Shard::default(), &Silent).unwrap();
    assert!(again.there == again.bands && again.bands == 4, "{again:?}");
    assert!(again.statistics.largest > 100, "{again:?}");
}

#[test]
fn real_documents_of_several_formats_go_through_stages_as_through_memory() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    fs::create_dir_all(&crawl).unwrap();
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "gz") {
            fs::copy(&path, crawl.join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut paths = write_files(&crawl, &texts(90, 0, 8), 2);
    paths.extend(
        discover(std::slice::from_ref(&crawl), &DiscoverOptions::default())
            .unwrap()
            .iter()
            .map(|i| i.path.clone()),
    );
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 5);
    assert_same(&paths, top.path(), &Settings::default(), Machine { shards: 2, threads: 2, memory: SMALL });
}

#[test]
#[ignore = "takes more memory than a small run: .ci/nightly"]
fn more_documents_than_the_memory_holds_give_the_same_bytes() {
    let top = tempfile::tempdir().unwrap();
    let paths = write_files(&top.path().join("crawl"), &texts(12_000, 9_000, 5), 4);
    let [one, other] =
        [("one", ONE), ("other", Machine { shards: 1, threads: 3, memory: SMALL })].map(|(name, machine)| {
            let (sketches, kept) = (top.path().join(name), top.path().join(format!("{name} kept")));
            sketch_in_parts(&paths, &sketches, &quick(0.8), machine);
            for linkage in [Linkage::Star, Linkage::Connected] {
                join_in_parts(&sketches, &[], linkage, machine);
            }
            clusters_and_kept(&paths, &sketches, &[], &kept, Linkage::Star, machine);
            clusters_and_kept(
                &paths,
                &sketches,
                &[],
                &top.path().join(format!("{name} con")),
                Linkage::Connected,
                machine,
            );
            (contents(&sketches), contents(&kept))
        });
    assert!(one.0.keys().eq(other.0.keys()) && one.1.keys().eq(other.1.keys()));
    for (name, bytes) in one.0.iter().chain(&one.1) {
        assert!(other.0.get(name).or(other.1.get(name)) == Some(bytes), "{name}");
    }
}

#[test]
fn what_does_not_fit_is_named_and_stays() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    let paths = write_files(&crawl, &texts(60, 0, 1), 3);
    let sketches = top.path().join("sketches");
    let job = sketch_job(&paths, &sketches, &quick(0.8), ONE);
    let first = staged::sketch(&job, &Silent).unwrap();
    assert_eq!((first.files, first.there, first.documents), (3, 0, 60));
    assert_eq!(staged::sketch(&job, &Silent).unwrap().there, 3);
    let before = contents(&sketches);
    let reported = |error: Error| error.to_string();

    // Other settings.
    let other = SketchJob { settings: quick(0.7), ..job.clone() };
    let message = reported(staged::sketch(&other, &Silent).unwrap_err());
    assert!(message.contains("a setting is another") && message.contains("--force"), "{message}");
    // An input that has changed, in its middle and of the same length.
    let original = fs::read(&paths[1]).unwrap();
    let mut changed = original.clone();
    let middle = changed.len() / 2;
    changed[middle] = if changed[middle] == b'1' { b'2' } else { b'1' };
    fs::write(&paths[1], &changed).unwrap();
    let message = reported(staged::sketch(&job, &Silent).unwrap_err());
    assert!(message.contains("the input") && message.contains("changed"), "{message}");
    fs::write(&paths[1], &original).unwrap();
    // One that is missing ends the run before it begins.
    let mut missing = paths.clone();
    missing.push(crawl.join("no such.jsonl"));
    let empty = top.path().join("empty");
    let message = reported(
        staged::sketch(&SketchJob { inputs: missing, out: empty.clone(), ..job.clone() }, &Silent)
            .unwrap_err(),
    );
    assert!(message.contains("no such.jsonl") && !empty.exists(), "{message}");
    // A file of sketches that is cut, or of which a bit has flipped.
    let file = fs::read_dir(&sketches).unwrap().map(|e| e.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "sketches")).unwrap();
    let whole = fs::read(&file).unwrap();
    let join = cluster_job(&sketches);
    let cut_names = |names: &[u8]| fs::write(file.with_extension("names"), &names[..names.len() - 7]);
    fs::write(&file, &whole[..whole.len() - 7]).unwrap();
    let message = reported(staged::join(&join, Shard::default(), &Silent).unwrap_err());
    assert!(message.contains(&*file.to_string_lossy()) && message.contains("length"), "{message}");
    // It counts as missing, with a message, and so does one whose names are cut or gone.
    let notes = Notes::default();
    assert_eq!(staged::sketch(&job, &notes).unwrap().there, 2);
    cut_names(&fs::read(file.with_extension("names")).unwrap()).unwrap();
    assert_eq!(staged::sketch(&job, &notes).unwrap().there, 2);
    for (note, ending) in notes.0.lock().unwrap().iter().zip(["sketches", "names"]) {
        let path = file.with_extension(ending);
        assert!(note.contains(&*path.to_string_lossy()) && note.ends_with("It counts as missing"), "{note}");
    }
    assert_eq!(notes.0.lock().unwrap().len(), 2);
    fs::remove_file(file.with_extension("names")).unwrap();
    assert_eq!(staged::sketch(&job, &Silent).unwrap().there, 2);
    assert!(contents(&sketches) == before, "nothing else was touched");
    let mut flipped = whole.clone();
    flipped[whole.len() - 9] ^= 4;
    fs::write(&file, &flipped).unwrap();
    let message = reported(staged::join(&join, Shard::default(), &Silent).unwrap_err());
    assert!(message.contains(&*file.to_string_lossy()) && message.contains("checksum"), "{message}");
    simflip().arg("inspect").arg(&file).assert().failure();
    fs::write(&file, &whole[..whole.len() - 7]).unwrap();
    let names = fs::read(file.with_extension("names")).unwrap();
    let mut flipped_names = names.clone();
    flipped_names[names.len() - 3] ^= 4;
    for (bytes, names) in
        [(&whole[..whole.len() - 7], &names), (&flipped[..], &names), (&whole[..], &flipped_names)]
    {
        fs::write(&file, bytes).unwrap();
        fs::write(file.with_extension("names"), names).unwrap();
        let again = staged::sketch(&SketchJob { force: true, ..job.clone() }, &Silent).unwrap();
        assert_eq!(again.there, 2);
        assert!(contents(&sketches) == before, "nothing else was touched");
    }

    // A link in a folder that leads nowhere is reported and left out.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", crawl.join("link.jsonl")).unwrap();
        let all = SketchJob { inputs: vec![crawl.clone()], ..job.clone() };
        let done = staged::sketch(&all, &Silent).unwrap();
        assert_eq!((done.files, done.there, done.corrupt), (3, 3, 1));
        let named = SketchJob { inputs: vec![crawl.join("link.jsonl")], ..job.clone() };
        assert!(reported(staged::sketch(&named, &Silent).unwrap_err()).contains("link.jsonl"));
    }

    // A stage before the one that it needs; memory that is too little; a band that is missing.
    let cluster = |memory| ClusterJob { memory, ..cluster_job(&sketches) };
    let message = reported(staged::cluster(&cluster(None), &Silent).unwrap_err());
    assert!(message.contains("simflip join"), "{message}");
    let message = reported(staged::join(&cluster(Some(1 << 20)), Shard::default(), &Silent).unwrap_err());
    assert!(message.contains("memory") && message.contains("at least 4"), "{message}");
    staged::join(&join, "1/2".parse().unwrap(), &Silent).unwrap();
    let message = reported(staged::cluster(&cluster(None), &Silent).unwrap_err());
    assert!(message.contains("band-001.edges") && message.contains("simflip join"), "{message}");
    staged::join(&join, Shard::default(), &Silent).unwrap();
    // Clusters of another kind, or with another document to be kept, take another join.
    let connected = ClusterJob { grouping: Grouping::of(Linkage::Connected), ..cluster(None) };
    let longest = Grouping { keep: Keep::Longest, ..Grouping::of(Linkage::Star) };
    for other in [connected, ClusterJob { grouping: longest, ..cluster(None) }] {
        assert!(reported(staged::cluster(&other, &Silent).unwrap_err()).contains("simflip join"));
    }
    let apply = ApplyJob {
        sketches: sketches.clone(),
        against: Vec::new(),
        inputs: paths.clone(),
        out: top.path().join("kept"),
        grouping: Grouping::of(Linkage::Star),
        writes: Outputs { kept: true, removed: true },
        kept_files: KeptFiles::Each,
        memory: None,
        threads: 1,
        shard: Shard::default(),
    };
    assert!(reported(staged::apply(&apply, &Silent).unwrap_err()).contains("simflip cluster"));
    staged::cluster(&cluster(None), &Silent).unwrap();
    fs::write(&paths[1], &changed).unwrap();
    let message = reported(staged::apply(&apply, &Silent).unwrap_err());
    assert!(message.contains("changed"), "{message}");
    fs::write(&paths[1], &original).unwrap();
    let taken = top.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("thesis.tex"), "years of work").unwrap();
    assert!(
        reported(staged::apply(&ApplyJob { out: taken, ..apply.clone() }, &Silent).unwrap_err())
            .contains("empty")
    );
    // Where files have moved, their names and contents say which they are.
    let moved = top.path().join("moved");
    fs::rename(&crawl, &moved).unwrap();
    let inputs = vec![moved];
    assert_eq!(staged::apply(&ApplyJob { inputs, ..apply.clone() }, &Silent).unwrap().files, 3);
    let others = ApplyJob {
        writes: Outputs { kept: false, removed: true },
        inputs: vec![top.path().join("moved")],
        ..apply
    };
    assert!(reported(staged::apply(&others, &Silent).unwrap_err()).contains("name another folder"));
    #[cfg(unix)]
    fs::remove_file(top.path().join("moved/link.jsonl")).unwrap();
    // What was kept is not read as more documents.
    assert_eq!(discover(&[top.path().to_path_buf()], &DiscoverOptions::default()).unwrap().len(), 3);
    // Every file is one that inspect knows.
    for folder in [&sketches, &top.path().join("kept")] {
        for name in contents(folder).keys().filter(|name| !name.ends_with(".lock")) {
            simflip().arg("inspect").arg(folder.join(name)).assert().success();
        }
    }
}

#[test]
fn small_files_are_sketched_together_and_anew_where_others_come_between() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    let all = write_files(&crawl, &texts(300, 0, 5), 100);
    // Neither documents nor records; and records that are no documents before and behind one.
    fs::write(crawl.join("documents 03.jsonl"), "").unwrap();
    fs::write(crawl.join("documents 04.jsonl"), "no document\n{\"text\": \"one document\"}\nno document\n")
        .unwrap();
    let [sketches, fresh] = ["sketches", "fresh"].map(|name| top.path().join(name));
    let job = sketch_job(&all, &sketches, &quick(0.8), ONE);
    let some: Vec<PathBuf> =
        all.iter().enumerate().filter(|(at, _)| at % 3 > 0).map(|(_, path)| path.clone()).collect();
    let of_some = staged::sketch(&SketchJob { inputs: some.clone(), ..job.clone() }, &Silent).unwrap();
    let files = || contents(&sketches).len();
    assert!(of_some.files == some.len() as u64 && files() < some.len(), "{of_some:?}, {} files", files());
    let of_all = staged::sketch(&job, &Silent).unwrap();
    assert!(of_all.files == 100 && of_all.documents > of_some.documents, "{of_all:?}");
    assert_eq!(staged::sketch(&job, &Silent).unwrap(), Sketched { there: 100, ..of_all });
    staged::sketch(&SketchJob { out: fresh.clone(), ..job.clone() }, &Silent).unwrap();
    assert!(contents(&sketches) == contents(&fresh), "nothing of other bundles is left");
    for name in contents(&sketches).keys() {
        simflip().arg("inspect").arg(sketches.join(name)).assert().success();
    }
    // A file that has changed is reported by its own name.
    fs::write(crawl.join("documents 04.jsonl"), "{\"text\": \"another document\"}\n").unwrap();
    let message = staged::sketch(&job, &Silent).unwrap_err().to_string();
    assert!(message.contains("documents 04.jsonl as it is now"), "{message}");
    let forced = staged::sketch(&SketchJob { force: true, ..job }, &Silent).unwrap();
    assert!(forced.there > 0 && forced.there < 100, "{forced:?}");
}

#[test]
fn methods_that_need_all_at_hand_are_refused_before_anything_is_read() {
    let top = tempfile::tempdir().unwrap();
    for (options, reported) in [
        (&["--method", "simhash"][..], "bphs with --method simhash and --distance 3 or less"),
        (&["--method", "bphs", "--distance", "4"], "bphs with --method simhash and --distance 3 or less"),
        (&["--method", "minhash"], "no such file"),
        (&["--method", "minhash", "--sketch-bytes", "128"], "no such file"),
        (&["--method", "bphs", "--weighting", "tf-idf"], "documents are counted in memory"),
        (&["--verify", "jaccard"], "--verify jaccard"),
    ] {
        let out = simflip()
            .arg("sketch")
            .arg("no such file")
            .arg("--out")
            .arg(top.path().join("out"))
            .args(options)
            .assert();
        let out = out.code(2).get_output().clone();
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(message.contains(reported), "{message}");
    }
    assert!(!top.path().join("out").exists());
}

/// Runs a command of the tool again and again, killed at some moment of it each time, and at last to its end; how often
/// it was killed.
fn killed(arguments: &[&OsStr], kills: u32, rng: &mut SplitMix64, longest: Duration) -> u32 {
    let mut killed = 0;
    for _ in 0..kills {
        let tool = assert_cmd::cargo::cargo_bin("simflip");
        let mut child = std::process::Command::new(tool)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(longest.mul_f64(rng.unit() / 2.0));
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
    }
    simflip().args(arguments).assert().success();
    killed
}

#[test]
#[ignore = "kills runs for minutes: .ci/nightly"]
fn killed_at_any_moment_and_begun_again_the_result_is_the_same() {
    let top = tempfile::tempdir().unwrap();
    let crawl = top.path().join("crawl");
    write_files(&crawl, &texts(12_000, 500, 3), 6);
    let mut rng = SplitMix64::new(9);
    let stage =
        |name: &str, arguments: [&Path; 2], out: Option<&Path>, rng: Option<&mut SplitMix64>, longest| {
            let mut all: Vec<&OsStr> = vec![name.as_ref()];
            all.extend(
                arguments.iter().filter(|path| !path.as_os_str().is_empty()).map(|path| path.as_os_str()),
            );
            if let Some(out) = out {
                all.extend([OsStr::new("--out"), out.as_os_str()]);
            }
            all.extend(["--threads", "2"].map(OsStr::new));
            match rng {
                None => {
                    let begun = Instant::now();
                    simflip().args(&all).assert().success();
                    (0, begun.elapsed())
                }
                Some(rng) => (killed(&all, 14, rng, longest), longest),
            }
        };
    let none = Path::new("");
    let [once, often] = ["once", "often"].map(|name| top.path().join(name));
    let (kept, kept_often) = (top.path().join("kept once"), top.path().join("kept often"));
    let mut kills = 0;
    for (name, [first, second], out) in [
        ("sketch", [&*crawl, none], [Some(&*once), Some(&*often)]),
        ("join", [none, none], [None, None]),
        ("cluster", [none, none], [None, None]),
        ("apply", [none, &*crawl], [Some(&*kept), Some(&*kept_often)]),
    ] {
        let of = |folder| if name == "sketch" { first } else { folder };
        let (_, time) = stage(name, [of(&once), second], out[0], None, Duration::ZERO);
        kills += stage(name, [of(&often), second], out[1], Some(&mut rng), time).0;
    }
    assert!(kills > 12, "{kills} runs were killed before their end");
    let same = |a: &Path, b: &Path| {
        let (a, b) = (contents(a), contents(b));
        assert!(a.keys().eq(b.keys()), "{:?} {:?}", a.keys(), b.keys());
        a.iter().for_each(|(name, bytes)| assert!(b[name] == *bytes, "{name}"));
    };
    same(&once, &often);
    same(&kept, &kept_often);
}

#[test]
#[cfg(target_os = "linux")]
fn a_stage_that_is_ended_says_how_to_go_on() {
    let top = tempfile::tempdir().unwrap();
    // Nobody writes to it, so that the stage waits.
    let pipe = top.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("simflip"))
        .args(["sketch".as_ref(), pipe.as_os_str(), "--out".as_ref(), top.path().join("out").as_os_str()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // That of Ctrl-C.
    const INTERRUPT: i32 = 2;
    let begun = Instant::now();
    while !is_caught(child.id(), INTERRUPT) && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    if !ends_by(&mut child, "-INT", INTERRUPT) {
        return;
    }
    let output = child.wait_with_output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && reported.contains("the same command goes on"), "{reported}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_memory_that_is_set_is_kept() {
    let top = tempfile::tempdir().unwrap();
    let paths = write_files(&top.path().join("crawl"), &texts(30_000, 12_000, 2), 3);
    let [free, bound] = ["free", "bound"].map(|name| top.path().join(name));
    staged::sketch(&sketch_job(&paths, &free, &quick(0.8), ONE), &Silent).unwrap();
    fs::create_dir(&bound).unwrap();
    for (name, bytes) in contents(&free) {
        fs::write(bound.join(name), bytes).unwrap();
    }
    let peak = |output: &std::process::Output| -> u64 {
        let reported = String::from_utf8_lossy(&output.stdout).into_owned();
        reported.rsplit_once("Peak memory ").unwrap().1.trim_end_matches(" MiB.\n").parse().unwrap()
    };
    for stage in [
        &["join"][..],
        &["cluster"],
        &["join", "--clusters", "connected"],
        &["cluster", "--clusters", "connected"],
    ] {
        simflip().args(stage).arg(&free).args(["--memory", "4GiB"]).assert().success();
        // Address space that the program and its threads take beside what they use.
        let limited = "ulimit -v 600000; exec \"$0\" \"$@\"";
        let mut shell = assert_cmd::Command::new("sh");
        let shell = shell.arg("-c").arg(limited).arg(assert_cmd::cargo::cargo_bin("simflip"));
        let done =
            shell.args(stage).arg(&bound).args(["--memory", "46MiB", "--threads", "2"]).assert().success();
        let peak = peak(done.get_output());
        assert!(peak <= 46, "{stage:?} held {peak} MiB");
    }
    assert!(contents(&free) == contents(&bound));
}
