//! `simflip upload`

use super::progress::Bars;
use super::{Done, print_text};
use simflip::display::printable_path;
use simflip::pipeline::upload;
use std::path::PathBuf;

/// Copy a result to an object store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: simflip upload result s3://bucket/prefix/

It takes a build with the feature stores; docs/stores.md says where keys come from. report.json is put last: where it is,
all else is.")]
pub(crate) struct UploadArgs {
    /// Folder that simflip dedup wrote
    result: PathBuf,

    /// Where to put its files: s3://bucket/prefix/, gs://bucket/prefix/ or az://container/prefix/
    address: PathBuf,

    /// Replace an earlier result there, or what an upload of this one that was ended has put there
    #[arg(long)]
    force: bool,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl UploadArgs {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        upload(&self.result, &self.address, self.force, &Bars::new(self.quiet))?;
        print_text(&format!("{}\n", printable_path(&self.address)))
    }
}
