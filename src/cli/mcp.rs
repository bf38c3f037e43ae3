//! `simflip mcp`

use super::Done;
use super::options::{of_files, of_seen};
use anyhow::Context;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{ServiceExt, schemars, tool, tool_handler, tool_router};
use serde::{Deserialize, Serialize};
use simflip::corpus::{self, DiscoverOptions, GatherJob, discover_all, gather};
use simflip::pipeline::{Silent, Summary};
use simflip::report::model::PairKind;
use simflip::seen::{AnswerKind, Request};
use simflip::staged::dedup;
use simflip::tables::PairsReader;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Answer agents over the Model Context Protocol (MCP).
///
/// Speaks on standard input and output, until its client closes them. Its tools are find_duplicates, among files,
/// folders or texts, and check_text, against files, folders or --index, before a text is written. They change nothing
/// but temporary files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in the configuration of a client:
  {\"mcpServers\": {\"simflip\": {\"command\": \"simflip\", \"args\": [\"mcp\", \"--index\", \"notes.seen\"]}}}")]
pub(crate) struct Args {
    /// The index, as simflip seen makes it, that check_text asks if it is given no paths
    #[arg(long, value_name = "DIR")]
    index: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.context("the runtime")?.block_on(async {
            let service = Tools { index: self.index }.serve(rmcp::transport::stdio()).await?;
            service.waiting().await?;
            Ok(Done::Well)
        })
    }
}

/// The tools that a client may call.
struct Tools {
    index: Option<PathBuf>,
}

/// The arguments of `find_duplicates`.
#[derive(Deserialize, schemars::JsonSchema)]
struct Find {
    /// Files and folders: text, Markdown and HTML (a document each), JSONL, CSV, Parquet, Arrow, WET and WARC.
    #[serde(default)]
    paths: Vec<PathBuf>,
    /// Texts instead of paths; a text is called by its number, from 0.
    #[serde(default)]
    texts: Vec<String>,
    /// The Jaccard similarity of word 5-grams from which documents are near-duplicates, above 0 and at most 1; 0.8 if
    /// it is not given.
    similarity: Option<f64>,
    /// The most duplicates that are listed; 100 if it is not given.
    limit: Option<usize>,
}

/// The answer of `find_duplicates`.
#[derive(Serialize, schemars::JsonSchema)]
struct FoundDuplicates {
    /// Documents that were compared.
    documents: u64,
    /// Documents that are duplicates of another one.
    duplicates: u64,
    /// The duplicates, in the order of documents, up to the limit.
    listed: Vec<Duplicate>,
    /// Files and records that could not be read.
    corrupt: u64,
}

/// A document, and the one that it duplicates.
#[derive(Serialize, schemars::JsonSchema)]
struct Duplicate {
    /// The path of a text file, the id of a record, or the number of a text.
    document: String,
    /// The document that it duplicates, which would be kept.
    duplicate_of: String,
    /// Their Jaccard similarity, 0 to 1.
    similarity: Option<f64>,
    /// `same`: the texts are the same. `near`: they are near-duplicates.
    kind: &'static str,
}

/// The arguments of `check_text`.
#[derive(Deserialize, schemars::JsonSchema)]
struct Check {
    /// The text.
    text: String,
    /// The files and folders that it is compared with, as for `find_duplicates`; the index if there are none.
    #[serde(default)]
    paths: Vec<PathBuf>,
    /// The similarity from which it is near, for paths; 0.8 if it is not given.
    similarity: Option<f64>,
}

/// The answer of `check_text`.
#[derive(Serialize, schemars::JsonSchema)]
struct Checked {
    /// `same`: the text is there. `near`: a near-duplicate is. `new`: neither.
    answer: &'static str,
    /// The most similar document that is there.
    document: Option<String>,
    /// Its similarity, 0 to 1.
    similarity: Option<f64>,
}

#[tool_router]
impl Tools {
    #[tool(
        description = "Finds duplicates and near-duplicates among files, folders or texts, and says which document each of \
                       them duplicates. Nothing is changed.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn find_duplicates(
        &self,
        Parameters(asked): Parameters<Find>,
    ) -> Result<Json<FoundDuplicates>, String> {
        answered(move || find(&asked)).await
    }

    #[tool(
        description = "Checks, before a text is written, whether the same or nearly the same text is in files, in folders or \
                       in the index of this server. Nothing is changed.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn check_text(&self, Parameters(asked): Parameters<Check>) -> Result<Json<Checked>, String> {
        let index = self.index.clone();
        answered(move || check(&asked, index.as_deref())).await
    }
}

#[tool_handler(name = "simflip")]
impl rmcp::ServerHandler for Tools {}

/// Runs a tool on a thread of its own, and gives its answer.
async fn answered<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<Json<T>, String> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    done.map(Json).map_err(|error| super::error_text(&error, &[]))
}

fn find(asked: &Find) -> anyhow::Result<FoundDuplicates> {
    anyhow::ensure!(
        asked.paths.is_empty() != asked.texts.is_empty(),
        "expected paths or texts, and not both: {{\"paths\": [\"notes\"]}}"
    );
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let mut inputs = inputs(&asked.paths, folder.path())?;
    if !asked.texts.is_empty() {
        inputs.push(lines(&asked.texts, &folder.path().join("texts.jsonl"))?);
    }
    let (summary, mut listed) = duplicates(&inputs, &[], asked.similarity, folder.path())?;
    listed.truncate(asked.limit.unwrap_or(100));
    Ok(FoundDuplicates {
        documents: summary.documents,
        duplicates: summary.removed,
        listed,
        corrupt: summary.corrupt,
    })
}

fn check(asked: &Check, index: Option<&Path>) -> anyhow::Result<Checked> {
    if asked.paths.is_empty() {
        let index = index.context("expected paths, or a server that was started with --index")?;
        anyhow::ensure!(
            asked.similarity.is_none(),
            "similarity: an index has a threshold of its own; leave it out"
        );
        let option = [OsString::from("--index"), index.into()];
        let opened = of_seen(&option, true)?;
        let reply = opened.seen.ask(&Request::default(), &opened.sketcher()?.sketch(&asked.text))?;
        let is_there = reply.kind != AnswerKind::New;
        return Ok(Checked {
            answer: reply.kind.name(),
            document: reply.earlier.map(|name| name.to_string()),
            // Four decimals, as everywhere.
            similarity: is_there.then_some((f64::from(reply.similarity) * 1e4).round() / 1e4),
        });
    }
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let against = inputs(&asked.paths, folder.path())?;
    let text = lines(std::slice::from_ref(&asked.text), &folder.path().join("text.jsonl"))?;
    let (_, listed) = duplicates(&[text], &against, asked.similarity, folder.path())?;
    let Some(Duplicate { document, similarity, kind, .. }) = listed.into_iter().next() else {
        return Ok(Checked { answer: "new", document: None, similarity: None });
    };
    Ok(Checked { answer: kind, document: Some(document), similarity })
}

/// The files that `simflip dedup` reads for these paths: texts and HTML are gathered in the folder.
fn inputs(paths: &[PathBuf], folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    corpus::check_exist(paths)?;
    let (documents, mut inputs): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| path.is_dir() || corpus::is_document(path));
    if documents.is_empty() {
        return Ok(inputs);
    }
    let out = folder.join("gathered.jsonl");
    let job = GatherJob {
        inputs: documents.clone(),
        out: out.clone(),
        url: None,
        longest_document: None,
        threads: 0,
    };
    match gather(&job, &|_, _| {}) {
        Ok(_) => inputs.push(out),
        Err(simflip::Error::NoDocuments(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let options = DiscoverOptions::default();
    let holds_records =
        |path: &&PathBuf| path.is_dir() && discover_all(&[path.to_path_buf()], &options).is_ok();
    inputs.extend(documents.iter().filter(holds_records).cloned());
    // A folder in which nothing is has its own error.
    Ok(if inputs.is_empty() { documents } else { inputs })
}

/// Writes texts as lines of JSON, each called by its number.
fn lines(texts: &[String], path: &Path) -> anyhow::Result<PathBuf> {
    let mut lines = String::new();
    for (number, text) in texts.iter().enumerate() {
        lines += &serde_json::json!({ "id": number.to_string(), "text": text }).to_string();
        lines.push('\n');
    }
    fs::write(path, lines).with_context(|| path.display().to_string())?;
    Ok(path.to_owned())
}

/// Runs `simflip dedup` in a folder, and reads which documents are duplicates; of `against`, which ones the new
/// documents duplicate.
fn duplicates(
    inputs: &[PathBuf],
    against: &[PathBuf],
    similarity: Option<f64>,
    folder: &Path,
) -> anyhow::Result<(Summary, Vec<Duplicate>)> {
    let out = folder.join("result");
    let option = |name: &str, value: &Path| {
        let mut option = OsString::from(format!("--{name}="));
        option.push(value);
        option
    };
    let mut arguments = vec![option("out", &out), "--write=pairs".into()];
    arguments.extend(similarity.map(|similarity| format!("--similarity={similarity}").into()));
    arguments.extend(against.iter().map(|path| option("against", path)));
    arguments.push("--".into());
    arguments.extend(inputs.iter().map(OsString::from));
    let summary = dedup(&of_files(&arguments)?, &Silent)?;
    let (mut pairs, mut listed) = (PairsReader::open(&out.join("pairs.csv"))?, Vec::new());
    while let Some(pair) = pairs.next_row()? {
        listed.push(Duplicate {
            document: pair.b_id().to_owned(),
            duplicate_of: pair.a_id().to_owned(),
            similarity: pair.similarity()?,
            kind: if pair.kind() == PairKind::Exact { "same" } else { "near" },
        });
    }
    Ok((summary, listed))
}
