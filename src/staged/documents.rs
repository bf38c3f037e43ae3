//! The documents of files of sketches, one by one, for an index of seen pages that is made of them.

use super::layout::{Column, weights_of};
use super::sketches::{CHUNK, Folder, SketchFile, SketchedInput};
use crate::error::Result;
use crate::format::wrong;
use simflip_core::settings::{Settings, Sketches};
use simflip_core::sketch::{Facts, Hashed, SketchValue, TwoSketches};
use std::path::Path;

/// A document of a file of sketches.
#[derive(Clone, Debug)]
pub struct SketchedDocument {
    /// Its URL, or else its id, or else `FILE:PLACE`: the name of its input file without folders, and its place among
    /// the documents of that, counted from 0.
    pub name: String,
    /// The digest of its text and the number of its features; the length of the text is 0, whatever it was.
    pub facts: Facts,
    /// Its sketch, without the hashes of features that containment looks at.
    pub value: SketchValue,
}

/// The settings of a file of sketches, or of all those of a folder.
///
/// # Errors
/// If there are no sketches at `path`, one cannot be read, or those of a folder have different settings.
pub fn settings_of(path: &Path) -> Result<Settings> {
    Ok(files_of(path)?.1)
}

/// Calls `each` with the documents of a file of sketches, or of all those of a folder, in the order of files and
/// places.
///
/// # Errors
/// If a file cannot be read or is corrupt, or boilerplate was left out of its documents; and as `each`. A file is
/// checked before its first document is handed over.
pub fn documents_of(path: &Path, mut each: impl FnMut(SketchedDocument) -> Result<()>) -> Result<()> {
    for file in files_of(path)?.0 {
        if file.header.reading.boilerplate.is_some() {
            let (expected, got) = ("none that is left out", "some, which a text that is asked about has");
            let advice = "sketch the input without --boilerplate";
            return Err(wrong(file.path(), "the boilerplate", expected, got, advice));
        }
        file.check()?;
        let names = file.names()?;
        let short = |input: &SketchedInput| {
            Path::new(&input.mark.path).file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        let places = file.header.inputs.iter().flat_map(|input| {
            let short = short(input);
            (0..input.documents).map(move |place| format!("{short}:{place}"))
        });
        let mut places = names.iter().zip(places);
        let (mut reader, bands) = (file.reader()?, file.layout.bands);
        let [mut digests, mut features, mut hashes, mut bits] = [const { Vec::new() }; 4];
        let mut keys = vec![Vec::new(); bands];
        for from in (0..file.layout.documents).step_by(CHUNK as usize) {
            let count = CHUNK.min(file.layout.documents - from) as usize;
            reader.read(Column::Digests, from, count, &mut digests)?;
            reader.read(Column::Features, from, count, &mut features)?;
            reader.read(Column::Hashes, from, count, &mut hashes)?;
            reader.read(Column::Bits, from, count, &mut bits)?;
            for (band, keys) in keys.iter_mut().enumerate() {
                reader.read(Column::Keys(band), from, count, keys)?;
            }
            let words =
                |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
            let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes.as_chunks().0[at]);
            for at in 0..count {
                let Some((named, place)) = places.next() else { break };
                let name = named.url.clone().or_else(|| named.id.clone()).unwrap_or(place);
                let digest = u128::from_le_bytes(digests.as_chunks().0[at]);
                let facts = Facts { digest, features: number(&features, at), text_bytes: 0 };
                let hash = u64::from_le_bytes(hashes.as_chunks().0[at]);
                let bits = &bits[at * 8 * file.layout.words..][..8 * file.layout.words];
                let value = match file.header.settings.sketches {
                    Sketches::SimHash { .. } => {
                        SketchValue::SimHash(Hashed { hash, weights: weights_of(bits) })
                    }
                    _ => SketchValue::Both(TwoSketches {
                        hash,
                        bits: words(bits),
                        keys: keys.iter().map(|keys| number(keys, at)).collect(),
                        extra: Vec::new(),
                    }),
                };
                each(SketchedDocument { name, facts, value })?;
            }
        }
    }
    Ok(())
}

fn files_of(path: &Path) -> Result<(Vec<SketchFile>, Settings)> {
    if path.is_dir() {
        let Folder { files, settings, .. } = Folder::open(path)?;
        return Ok((files, settings));
    }
    let file = SketchFile::open(path)?;
    let settings = file.header.settings.clone();
    Ok((vec![file], settings))
}
