//! The rules by which near documents form clusters, and by which some of them are kept.

use crate::atomic_write::is_address;
use crate::hash::text_digest;
use serde::{Deserialize, Serialize};
use simflip_core::clusters::{Keep, Linkage, Quota};
use simflip_core::settings::Settings;
use std::fs;
use std::path::{Component, PathBuf};

/// The rules of clustering: the linkage, and which documents of a cluster are kept. A join depends on all but the
/// quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grouping {
    /// The linkage: star, where each document is near the kept one, or connected, where a chain of near pairs will do.
    pub linkage: Linkage,
    /// The rule that says which document of a cluster is kept.
    #[serde(default, skip_serializing_if = "is_first")]
    pub keep: Keep,
    /// The number of documents of a cluster, or of each source in it, that are kept.
    #[serde(default, skip_serializing_if = "Quota::is_one")]
    pub quota: Quota,
    /// With [`Keep::InputOrder`], the paths of input files and folders, as [`priority_of`] gives them. Documents of the
    /// first one are preferred, then those of the next; documents of other inputs come last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<String>,
    /// True to list every pair of near documents that share a band hash, not only those by which documents are removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_pairs: bool,
}

/// Paths of input files and folders as the headers of sketches have them: links are resolved as far as the path exists.
/// The address of something in a store stays as it is.
pub fn priority_of(paths: &[PathBuf]) -> Vec<String> {
    let real = |path: &PathBuf| {
        if is_address(path) {
            return path.clone();
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        absolute.components().fold(PathBuf::new(), |mut real, part| {
            match part {
                Component::ParentDir => drop(real.pop()),
                _ => real.push(part),
            }
            fs::canonicalize(&real).unwrap_or(real)
        })
    };
    paths.iter().map(|path| real(path).to_string_lossy().into_owned()).collect()
}

/// True if the first document of a cluster is kept, as usual.
fn is_first(keep: &Keep) -> bool {
    *keep == Keep::First
}

impl Grouping {
    /// Rules with this linkage, by which the first document of a cluster is kept.
    pub fn of(linkage: Linkage) -> Self {
        Self { linkage, ..Self::default() }
    }

    /// The rules of a run's settings.
    pub fn of_settings(settings: &Settings) -> Self {
        Self {
            linkage: settings.linkage,
            keep: settings.keep.clone(),
            quota: settings.quota,
            priority: Vec::new(),
            all_pairs: settings.all_pairs,
        }
    }

    /// The rules on which a join depends: without the quota.
    pub(super) fn of_join(&self) -> Self {
        Self { quota: Quota::default(), ..self.clone() }
    }

    /// Settings with the linkage, the rules of keeping and `all_pairs` of this grouping.
    pub(super) fn settings(&self, settings: &Settings) -> Settings {
        settings.clone().with(|settings| {
            settings.linkage = self.linkage;
            settings.keep = self.keep.clone();
            settings.quota = self.quota;
            settings.all_pairs = self.all_pairs;
        })
    }

    /// A name for a join by these rules of the sketches whose [id](super::sketches::Folder::id) is `sketches`.
    pub(super) fn of_joined(&self, sketches: &str) -> String {
        let Self { linkage, all_pairs, .. } = self;
        let pairs = if *all_pairs { "\nall pairs" } else { "" };
        let joined = format!("{sketches}\n{}\n{}{pairs}", linkage.name(), self.of_join().keep_rule());
        format!("{:016x}", text_digest(&joined) as u64)
    }

    /// The name of a file of clusters by these rules, without its ending.
    pub(super) fn name(&self) -> String {
        let linkage = self.linkage.name();
        match is_first(&self.keep) && self.quota.is_one() {
            true => linkage.to_owned(),
            // A field of scores may be called anything.
            false => format!("{linkage}-{:016x}", text_digest(&self.keep_rule()) as u64),
        }
    }

    /// The quota and the rule of keeping in words, and the priority behind them.
    pub(super) fn keep_rule(&self) -> String {
        let priority: String = self.priority.iter().map(|path| format!("\0{path}")).collect();
        format!("{}, {}{priority}", self.quota, self.keep)
    }
}
