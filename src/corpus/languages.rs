//! The number of documents in each language.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of documents by the first language that they name. If the names are too many to be languages, as in a
/// column of something else, nothing is counted any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Languages {
    /// None once they were too many.
    documents: Option<BTreeMap<String, u64>>,
    /// Bytes of their names, and of what keeps them.
    #[serde(skip)]
    bytes: usize,
}

/// Bytes that a name takes beside its own.
const ENTRY: usize = 48;
/// Bytes of all names: several thousand of them. There are some 8,000 languages, and codes for 200 in use.
const MOST: usize = 256 << 10;

impl Default for Languages {
    fn default() -> Self {
        Self { documents: Some(BTreeMap::new()), bytes: 0 }
    }
}

impl Languages {
    /// Counts so many documents of a language; an empty one stands for documents that name none.
    pub fn add(&mut self, language: &str, count: u64) {
        let Some(documents) = &mut self.documents else { return };
        if let Some(sum) = documents.get_mut(language) {
            *sum += count;
            return;
        }
        self.bytes += ENTRY + language.len();
        if self.bytes > MOST {
            self.documents = None;
        } else {
            documents.insert(language.to_owned(), count);
        }
    }

    /// Adds the counts of another part of the documents.
    pub fn merge(&mut self, others: Self) {
        match others.documents {
            Some(documents) => documents.iter().for_each(|(language, &count)| self.add(language, count)),
            None => self.documents = None,
        }
    }

    /// Each language that is named and its documents, in order of names; nothing if they are not counted.
    pub fn each(&self) -> impl Iterator<Item = (&str, u64)> {
        let named = self.documents.iter().flatten().filter(|(language, _)| !language.is_empty());
        named.map(|(language, &documents)| (&**language, documents))
    }

    /// True if there were too many names, so that nothing is counted.
    pub fn are_too_many(&self) -> bool {
        self.documents.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: impl IntoIterator<Item = String>) -> Languages {
        let mut languages = Languages::default();
        names.into_iter().for_each(|name| languages.add(&name, 1));
        languages
    }

    #[test]
    fn all_that_can_be_languages_are_counted() {
        let names = || (0..4000).map(|at| format!("{:04}", at % 2000)).chain(["".into()]);
        let languages = of(names());
        assert!(
            languages.each().eq((0..2000)
                .map(|at| format!("{at:04}"))
                .collect::<Vec<_>>()
                .iter()
                .map(|name| (&**name, 2)))
        );
        let mut both = of(names().take(1000));
        both.merge(of(names().skip(1000)));
        assert_eq!(both, languages);
        let written = serde_json::to_string(&languages).expect("a map");
        let read: Languages = serde_json::from_str(&written).expect("a map");
        assert!(read.each().eq(languages.each()) && written.starts_with(r#"{"":1,"0000":2"#));
    }

    #[test]
    fn what_is_not_counted_does_not_depend_on_who_met_it() {
        let names = || (0..8000).map(|at| format!("{at:04}"));
        for shares in [1, 2, 50] {
            let mut all = Languages::default();
            (0..shares).for_each(|share| all.merge(of(names().skip(share).step_by(shares))));
            assert!(all.are_too_many() && all.each().next().is_none());
            assert_eq!(serde_json::to_string(&all).expect("no map"), "null");
        }
        assert!(of(["x".repeat(MOST)]).are_too_many());
    }
}
