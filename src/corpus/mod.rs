//! Reads documents from stored files, and writes those that are kept: WARC and WET, lines of JSON and CSV, each plain
//! or compressed by gzip or Zstandard; and Parquet and Arrow.
//!
//! [`discover`] lists the files; the position of a file in that sorted list is the `shard` of its documents. [`read`]
//! lets one thread after the other decode the next block of a file, while the others work on the blocks before.
//! Corrupt input is counted, skipped and named ([`Corruption`]), and never ends a run; [`CorruptionKind`] says what
//! each kind costs. [`fetch`] reads single documents again by their [`Place`].

mod ahead;
mod asked;
mod corruption;
mod csv;
mod cut;
mod data_set;
mod document;
mod feed;
mod fetch;
mod filetype;
mod gather;
mod guard;
mod gzip;
mod gzip_header;
#[cfg(feature = "html")]
mod html;
mod input;
mod input_mark;
mod inputs;
mod jsonl;
mod kept;
mod languages;
#[cfg(not(feature = "stores"))]
#[path = "no_object.rs"]
mod object;
#[cfg(feature = "stores")]
mod object;
mod options;
mod parquet;
mod peek;
mod read;
mod reader;
mod records;
mod source;
mod storage;
mod stream;
mod wet;
mod window;
mod write;
mod zst;

#[doc(inline)]
pub use crate::document::{DocId, Place};

pub(crate) use asked::{Needed, check_fields, check_texts};
pub(crate) use corruption::TooLong;
pub use corruption::{Corruption, CorruptionKind, FileReading};
pub use document::Document;
pub(crate) use document::IN_MEMORY;
pub(crate) use fetch::each_record;
pub use fetch::fetch;
pub(crate) use filetype::split_name;
pub use filetype::{Compression, Format};
pub use input::Input;
pub(crate) use input_mark::InputMark;
pub use inputs::{DiscoverOptions, discover};
pub(crate) use inputs::{check_exist, gone, is_other_table, is_stream};
pub use jsonl::JsonlFields;
pub use kept::KeptFiles;
pub(crate) use kept::{CUT, is_kept_name, kept_files};
pub use languages::Languages;
pub(crate) use object::{Object, PutTarget, list as list_objects};
pub(crate) use options::pool;
pub use options::{ReadOptions, ReadRules};
pub(crate) use parquet::GROUP_BYTES;
pub(crate) use read::{ReadJob, read_and_sum};
pub use read::{Reading, read};
pub(crate) use write::pack;

// For the tool, which is a crate of its own, and for tests.
#[doc(hidden)]
pub use {
    corruption::TextSum,
    document::RecordContent,
    filetype::is_document,
    gather::{GatherJob, Gathered, gather},
    guard::panic_is_corruption,
    inputs::{Discovered, NotRead, PassedOver, Reason, discover_all, expand_patterns},
    jsonl::{NamedBy, document_of_line, objects_of_line, repaired_line},
    kept::{EachKept, Kept, KeptDocuments, KeptFile},
    peek::{Peeked, peek},
    write::{IsSame, KeptJob, write_kept},
    zst::LONGEST_WINDOW,
};

/// The name and version of the library that takes the text out of HTML, for reports: another one gives other texts.
/// `None` in a build without the feature `html`, which reads no HTML.
#[doc(hidden)]
pub const EXTRACTOR: Option<&str> = if cfg!(feature = "html") { Some("html2text 0.17") } else { None };
