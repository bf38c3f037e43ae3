//! The kind of the difference of two texts whose words are the same or differ in accents alone, for `simflip explain`.

use super::Tokenizer;
use super::fold::Classes;
use serde::Serialize;

/// The kind of a difference of two texts that are the same but for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Characters that a reader does not see: soft hyphens, joiners, direction marks, variation selectors.
    InvisibleCharacters,
    /// Case, punctuation, white space, the form of characters, or marks that readers do without, such as Arabic vowel
    /// signs: the folded words are the same.
    Form,
    /// Accents: the words are the same without them.
    Accents,
}

impl Difference {
    /// The kind of the difference of two texts, the first one that suffices. `None` if the texts are the same, or if no
    /// kind suffices.
    pub fn between(a: &str, b: &str) -> Option<Self> {
        if a == b {
            return None;
        }
        let classes = Classes::default();
        let [a_seen, b_seen] = [a, b].map(|text| text.chars().filter(|&c| !classes.is_invisible(c)));
        if a_seen.eq(b_seen) {
            return Some(Self::InvisibleCharacters);
        }
        let [a, b] = [a, b].map(|text| Tokenizer::default().words(text));
        if a == b {
            return Some(Self::Form);
        }
        let plain = |(a, b): (&String, &String)| classes.without_accents(a).eq(classes.without_accents(b));
        (a.len() == b.len() && a.iter().zip(&b).all(plain)).then_some(Self::Accents)
    }
}

#[cfg(test)]
mod tests {
    use super::Difference::{Accents, Form, InvisibleCharacters};
    use super::*;

    #[test]
    fn what_alone_differs_is_named() {
        for (a, b, only) in [
            ("an example", "an exam\u{ad}ple\u{200b}", Some(InvisibleCharacters)),
            ("葛 ❤", "葛\u{e0100} ❤\u{fe0f}", Some(InvisibleCharacters)),
            ("Élève", "E\u{301}le\u{300}ve", Some(Form)),
            ("Full, width", "ｆｕｌｌ width", Some(Form)),
            ("كِتَاب", "كتــاب", Some(Form)),
            ("l'élève", "l\u{ad}'eleve", Some(Accents)),
            ("Việt Nam", "viet nam", Some(Accents)),
            ("ёлка", "елка", Some(Accents)),
            ("がか", "かか", None),
            ("हिन्दी", "हन्द", None),
            ("the same", "the same", None),
            ("élève", "eleves", None),
            ("one", "one two", None),
        ] {
            assert_eq!(Difference::between(a, b), only, "{a} {b}");
            assert_eq!(Difference::between(b, a), only, "{b} {a}");
        }
    }
}
