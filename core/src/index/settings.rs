//! The settings that an index of documents can have.

use crate::settings::{FeatureKind, Generator, Recall, Settings};
use std::ops::Deref;

/// Settings by which an [`Index`](super::Index) finds documents, and which a sketcher and a run take as well.
///
/// ```
/// use simflip_core::settings::{FeatureKind, Recall};
/// use simflip_core::{Deduper, Index, Sketcher, index::IndexSettings};
///
/// for settings in [IndexSettings::both(0.8), IndexSettings::simhash(10, Recall::AtLeast(0.95))] {
///     let settings = settings.features(FeatureKind::Characters(5));
///     let (mut index, mut sketcher) = (Index::new(&settings)?, Sketcher::new(&settings, None)?);
///     index.add(&sketcher.sketch("ships of the harbour carry grain and wine"))?;
///     let run = Deduper::new(settings.into())?;
///     assert_eq!((index.len(), run.len()), (1, 0));
/// }
/// # Ok::<(), simflip_core::Error>(())
/// ```
///
/// Other [`Settings`] have a search that does not grow, and the compiler refuses them:
///
/// ```compile_fail,E0308
/// # use simflip_core::{Index, Settings};
/// let index = Index::new(&Settings::minhash(0.8));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSettings(Settings);

impl IndexSettings {
    /// Both sketches, as [`Settings::both`] has them: documents that share a band hash are near if their estimated
    /// Jaccard similarity is at least `similarity`.
    pub fn both(similarity: f64) -> Self {
        Self(Settings::both(similarity))
    }

    /// SimHashes within `distance` bits, verified by the cosine of their weights as [`Settings::simhash`] has it.
    /// `recall` is the share of the pairs within that distance that is to be found.
    ///
    /// For [`Recall::AtLeast`], the index measures the number of probes on its documents: from 4,096 different hashes
    /// on, and again whenever their number has doubled. With fewer it makes all probes.
    pub fn simhash(distance: u32, recall: Recall) -> Self {
        let generator = Generator::Dial { distance, recall, key_bits: None };
        Self(Settings { generator, ..Settings::simhash() })
    }

    /// Gives these settings with another kind of features.
    #[must_use]
    pub fn features(self, features: FeatureKind) -> Self {
        Self(Settings { features, ..self.0 })
    }
}

impl Deref for IndexSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

impl From<IndexSettings> for Settings {
    fn from(settings: IndexSettings) -> Self {
        settings.0
    }
}
