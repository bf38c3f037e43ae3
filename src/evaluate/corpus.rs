//! The names of the records of a corpus in results, by record number.

use crate::corpus::{self, FileReading, Input, ReadOptions};
use crate::display::counted;
use crate::document::DocId;
use crate::error::{Error, Result};
use crate::hash;
use hashbrown::HashSet;

/// Reads the corpus and returns the name of every record, by record number. Records, such as WET records or the lines
/// that are not blank, are counted from 0 through the sorted files. A record's name is its id; if it has none, or an
/// earlier record has it already, the name is its file and its place there. A record that could not be read keeps its
/// number and has an empty name, but behind the last document of a file it gets no number. The second value says of
/// each file how it was read.
///
/// # Errors
/// If there is no document.
pub fn record_names(inputs: &[Input], options: &ReadOptions) -> Result<(Vec<String>, Vec<FileReading>)> {
    let reading = corpus::read_and_sum(
        inputs,
        options,
        Vec::<(DocId, Option<String>)>::new,
        |names, document| names.push((document.id, document.record_id.map(str::to_owned))),
        &|_| (),
    );
    let mut named = reading.workers.concat();
    if named.is_empty() {
        let files = counted(inputs.len() as u64, "file was", "files were");
        return Err(Error::NoDocuments(format!("{files} read")));
    }
    named.sort_unstable_by_key(|&(id, _)| id);
    let mut seen = HashSet::new();
    let mut names: Vec<String> = Vec::with_capacity(named.len());
    for file in named.chunk_by_mut(|(a, _), (b, _)| a.shard == b.shard) {
        let start = names.len();
        for (id, name) in file {
            names.resize(start + id.row as usize, String::new());
            // A name that an earlier record has already is no name, to results neither.
            let own = name.take().filter(|name| seen.insert(hash::text_digest(name)));
            names.push(own.unwrap_or_else(|| inputs[id.shard as usize].name_of(id.row)));
        }
    }
    Ok((names, reading.files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::discover;
    use crate::evaluate::found::RecordNames;
    use std::fs;

    #[test]
    fn records_are_numbered_through_the_files_and_corrupt_ones_keep_their_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.jsonl"), "{\"id\":\"x\",\"text\":\"one\"}\nno json\n{\"text\":\"three\"}\n")
            .unwrap();
        fs::write(path("b.jsonl"), "{\"id\":\"x\",\"text\":\"four\"}\n{\"id\":\"y\",\"text\":\"five\"}\n")
            .unwrap();
        let inputs = discover(&[path("b.jsonl"), path("a.jsonl")], &Default::default()).unwrap();
        let (names, files) = record_names(&inputs, &ReadOptions::default()).unwrap();
        assert!(files.len() == 2 && files.iter().all(|file| file.texts.is_some()));
        let third = format!("{}:2", path("a.jsonl").display());
        let again = format!("{}:0", path("b.jsonl").display());
        assert_eq!(names, ["x", "", &third, &again, "y"]);
        let by_name = RecordNames::new(&names).unwrap();
        assert!(by_name.find("y").unwrap().is_some() && by_name.find("").unwrap().is_none());
        fs::write(path("b.jsonl"), "").unwrap();
        let inputs = discover(&[path("b.jsonl")], &Default::default());
        assert!(inputs.and_then(|inputs| record_names(&inputs, &ReadOptions::default())).is_err());
    }
}
