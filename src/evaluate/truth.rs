//! The truth: judged pairs or clusters of documents, read from CSV. Documents go by their record numbers, their places
//! in the corpus, counted from 0.

use super::found::RecordNames;
use super::partition::Partition;
use crate::display::counted;
use crate::error::{Error, Result};
use crate::id::Document;
use crate::tables::table::Table;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::{fmt, str::FromStr};

/// The judgement of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairLabel {
    /// The documents are near-duplicates.
    Duplicate,
    /// The documents are not near-duplicates.
    Distinct,
    /// The judge could not tell, or one judge said duplicate and another said distinct. A judge who knows outweighs one
    /// who does not. Scores of pairs leave the pair out, also if the result has it. In scores of clusters the pair
    /// joins nothing in the truth, like an unlisted one.
    Unknown,
}

impl PairLabel {
    /// The judgement that a label stands for: `duplicate`, `distinct`, `unknown` or nothing (unknown), or a number,
    /// which means duplicate from `min_label` on. `None` for anything else.
    pub fn of_label(label: &str, min_label: f64) -> Option<Self> {
        match label {
            "duplicate" => Some(Self::Duplicate),
            "distinct" => Some(Self::Distinct),
            "unknown" | "" => Some(Self::Unknown),
            number => match number.parse::<f64>() {
                Ok(value) if value >= min_label => Some(Self::Duplicate),
                Ok(value) if value < min_label => Some(Self::Distinct),
                _ => None,
            },
        }
    }
}

/// Messages of errors name the valid labels by this text, here and in [`judged`](super::judged).
pub(super) const LABELS: &str = "a number, duplicate, distinct or unknown";

/// A truth speaks about these pairs. The precision, the recall and the other figures of an evaluation are of them
/// alone. Scores of clusters first join the duplicates of a truth of pairs, and so may join unlisted pairs as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All pairs of documents of the corpus; those not listed are distinct.
    Corpus,
    /// All pairs of documents that the truth names; those not listed are distinct, other documents do not
    /// count.
    LabelledDocuments,
    /// The truth speaks about the listed pairs only, and nothing is known about others. A truth of clusters cannot have
    /// this scope. The clusters of a result get no [`ClusterScore`](super::ClusterScore), but the listed pairs in them
    /// are scored.
    LabelledPairs,
}

/// Messages of errors name the scopes that a truth of clusters may have by this text. [`evaluate`](super::evaluate)
/// checks the scope, too.
pub(super) const SCOPE_OF_CLUSTERS: &str = "corpus or labelled-documents, for a truth of clusters";

impl Scope {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Corpus => "corpus",
            Self::LabelledDocuments => "labelled-documents",
            Self::LabelledPairs => "labelled-pairs",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Corpus, Self::LabelledDocuments, Self::LabelledPairs]
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or_else(|| Error::parameter("scope", text, "corpus, labelled-documents or labelled-pairs"))
    }
}

/// A pair of documents, by record number, and its judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Judged {
    /// The lower record number.
    pub a: Document,
    /// The higher record number.
    pub b: Document,
    /// The judgement.
    pub judgement: PairLabel,
}

/// The judged pairs of a truth, or its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Pairs, each once, in ascending order.
    Pairs(Vec<Judged>),
    /// Clusters, and the records that are in them.
    Clusters {
        /// The clustering; records that the truth does not name are alone.
        clusters: Partition,
        /// The truth names these records. They ascend without repeats. With [`Scope::LabelledDocuments`] only these
        /// count. The clustering cannot tell a named record that is alone from an unnamed one.
        named: Vec<Document>,
    },
}

/// Parameters of reading a truth file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TruthParams {
    /// A pair with a score (`jaccard`, `similarity`, `score`) is a duplicate from this score on; without
    /// it, every listed pair is.
    pub min_score: Option<f64>,
    /// A pair with a numeric label is a duplicate from this label on.
    pub min_label: f64,
    /// The pairs about which the truth speaks. If this is `None`, it is labelled pairs for pairs with a label, labelled
    /// documents for clusters, the whole corpus for pairs with a score or nothing.
    pub scope: Option<Scope>,
}

impl Default for TruthParams {
    fn default() -> Self {
        Self { min_score: None, min_label: 1.0, scope: None }
    }
}

/// Reading a truth file makes these counts. An evaluation reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthCounts {
    /// Rows read.
    pub rows: u64,
    /// These rows are left out, since they name a record that the corpus does not have. For a pair, one such record is
    /// enough.
    pub rows_not_in_corpus: u64,
    /// Names (with repeats) of records that the corpus does not have.
    pub names_not_in_corpus: u64,
    /// Rows that pair a record with itself, left out.
    pub self_pairs: u64,
    /// These rows name a pair again, in either order and with any judgement. In a truth of clusters they name a record
    /// again, in its cluster or in another.
    pub repeats: u64,
    /// Pairs judged both ways, which are taken as unknown. For clusters, records named in more than one, whose clusters
    /// are joined.
    pub conflicts: u64,
    /// No row has a lower score than this, even among rows that are left out. It is `None` if no scores are read. A
    /// list that was made with a least score says nothing about the pairs below it. So an evaluation notes the lowest
    /// score, unless [`TruthParams::min_score`] is as high or higher.
    pub lowest_score: Option<f64>,
}

/// A truth as it was read from a file, with its scope and counts.
#[derive(Clone, Debug)]
pub struct TruthFile {
    /// The judged pairs or the clusters.
    pub truth: Truth,
    /// The pairs about which the truth speaks.
    pub scope: Scope,
    /// The counts of reading.
    pub counts: TruthCounts,
    /// A pair counts as duplicate from this score on, as [`TruthParams::min_score`] has it. It is `None` if none was
    /// given, and for clusters. An evaluation compares it with [`TruthCounts::lowest_score`].
    pub min_score: Option<f64>,
    /// The rule by which a pair counts as duplicate.
    pub rule: Rule,
}

/// A truth counts a pair as duplicate by this rule. An evaluation states it in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The pair's label is `duplicate`, or a number of at least this.
    Label(f64),
    /// The pair's score is at least this.
    Score(f64),
    /// The pair is listed, with a score or without, and no least score was given.
    Listed,
    /// Both documents are in one cluster.
    Together,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(least) => write!(f, "label >= {least}"),
            Self::Score(least) => write!(f, "score >= {least}"),
            Self::Listed => f.write_str("every listed pair"),
            Self::Together => f.write_str("one cluster"),
        }
    }
}

/// The naming of records in a file.
#[derive(Clone, Copy)]
enum Naming {
    /// By number, counted from 0.
    Number,
    /// By id.
    Id,
}

impl TruthFile {
    /// Reads a truth from CSV, plain or gzip'd. The header says what it is:
    ///
    /// - pairs by record number: `a`, `b`; pairs by id: `a_id`, `b_id`. With a `label` (a number,
    ///   `duplicate`, `distinct`, `unknown` or nothing) or a score (`jaccard`, `similarity` or `score`),
    ///   or neither: duplicates.
    /// - clusters: `cluster`, with `record` (a number) or `record_id` or `id`.
    ///
    /// Other columns are ignored. A header without rows is an empty truth.
    ///
    /// # Errors
    /// It is an error if the file cannot be read, if its header is another, or if a row is broken. An id is an error if
    /// several records of the corpus have it. A file with rows is an error if each row names a record that the corpus
    /// does not have. A least score must be finite. It is an error as well if a file with rows has labels, clusters or
    /// no scores. A truth of clusters cannot have the scope of labelled pairs.
    pub fn read(path: &Path, records: &RecordNames<'_>, params: &TruthParams) -> Result<Self> {
        if let Some(least) = params.min_score.filter(|least| !least.is_finite()) {
            return Err(Error::parameter("min-score", least, "a number"));
        }
        let mut table = Table::open(path)?;
        let by_number = table.column(&["a"]).zip(table.column(&["b"])).map(|c| (Naming::Number, c));
        let by_id = table.column(&["a_id"]).zip(table.column(&["b_id"])).map(|c| (Naming::Id, c));
        let member = table
            .column(&["record"])
            .map(|c| (Naming::Number, c))
            .or_else(|| table.column(&["record_id", "id"]).map(|c| (Naming::Id, c)));
        let of_naming = |table, naming| TruthTable { table, naming, records, params };
        let file = if let Some((naming, (a, b))) = by_id.or(by_number) {
            of_naming(&mut table, naming).read_pairs(a, b)?
        } else if let Some(((naming, member), cluster)) = member.zip(table.column(&["cluster"])) {
            of_naming(&mut table, naming).read_clusters(member, cluster)?
        } else {
            return Err(
                table.header_error("a header with a,b or a_id,b_id or cluster and record or record_id or id")
            );
        };
        if let (Some(least), None) = (params.min_score, file.counts.lowest_score)
            && file.counts.rows > 0
        {
            let expected = "a truth of pairs with scores (a column jaccard, similarity or score, and no labels); this one has \
                            none, so leave it out";
            return Err(Error::parameter("min-score", least, expected));
        }
        if file.counts.rows > 0 && file.counts.rows == file.counts.rows_not_in_corpus {
            let got =
                format!("{}, none of a document of this corpus", counted(file.counts.rows, "row", "rows"));
            return Err(table.error(2, got, "a truth about this corpus"));
        }
        Ok(file)
    }
}

/// A table of pairs or clusters being read.
struct TruthTable<'a> {
    table: &'a mut Table,
    naming: Naming,
    records: &'a RecordNames<'a>,
    params: &'a TruthParams,
}

impl TruthTable<'_> {
    /// The record that a name in a line means; `None` if the corpus does not have it.
    fn resolve(&self, line: u64, name: &str) -> Result<Option<Document>> {
        match self.naming {
            Naming::Number => match name.parse::<u64>() {
                Ok(number) => {
                    Ok(u32::try_from(number).ok().filter(|&n| n < self.records.count()).map(Document))
                }
                Err(_) => {
                    Err(self.table.error(line, format!("{name:?}"), "a record number, counted from 0,"))
                }
            },
            Naming::Id => {
                let found = self.records.find(name);
                found.map_err(|(got, expected)| self.table.error(line, got, expected))
            }
        }
    }

    /// Reads pairs, whose names are in the columns `a` and `b`.
    fn read_pairs(&mut self, a: usize, b: usize) -> Result<TruthFile> {
        let params = self.params;
        let label = self.table.column(&["label"]);
        let score = self.table.column(&["jaccard", "similarity", "score"]).filter(|_| label.is_none());
        let mut counts = TruthCounts::default();
        let (mut pairs, mut row) = (Vec::new(), csv::StringRecord::new());
        while let Some(line) = self.table.next(&mut row)? {
            counts.rows += 1;
            let judgement = if let Some(label) = label {
                PairLabel::of_label(&row[label], params.min_label)
                    .ok_or_else(|| self.table.error(line, format!("the label {:?}", &row[label]), LABELS))?
            } else if let Some(score) = score {
                let value = row[score].parse().ok().filter(|value: &f64| value.is_finite());
                let value = value.ok_or_else(|| {
                    self.table.error(line, format!("the score {:?}", &row[score]), "a number")
                })?;
                counts.lowest_score =
                    Some(counts.lowest_score.map_or(value, |lowest: f64| lowest.min(value)));
                if params.min_score.is_none_or(|least| value >= least) {
                    PairLabel::Duplicate
                } else {
                    PairLabel::Distinct
                }
            } else {
                PairLabel::Duplicate
            };
            let (a, b) = (self.resolve(line, &row[a])?, self.resolve(line, &row[b])?);
            counts.names_not_in_corpus += u64::from(a.is_none()) + u64::from(b.is_none());
            match (a, b) {
                (Some(a), Some(b)) if a == b => counts.self_pairs += 1,
                (Some(a), Some(b)) => pairs.push(Judged { a: a.min(b), b: a.max(b), judgement }),
                _ => counts.rows_not_in_corpus += 1,
            }
        }
        pairs.sort_unstable();
        let rows = pairs.len();
        pairs.dedup_by(|next, first| {
            let same = (next.a, next.b) == (first.a, first.b);
            if same && next.judgement != first.judgement && first.judgement != PairLabel::Unknown {
                // One judge who knows outweighs one who does not; two who know and disagree settle nothing.
                if next.judgement != PairLabel::Unknown {
                    counts.conflicts += 1;
                    first.judgement = PairLabel::Unknown;
                }
            }
            same
        });
        counts.repeats = (rows - pairs.len()) as u64;
        let rule = match (label, score, params.min_score) {
            (Some(_), ..) => Rule::Label(params.min_label),
            (None, Some(_), Some(least)) => Rule::Score(least),
            _ => Rule::Listed,
        };
        let scope =
            params.scope.unwrap_or(if label.is_some() { Scope::LabelledPairs } else { Scope::Corpus });
        Ok(TruthFile { truth: Truth::Pairs(pairs), scope, counts, min_score: params.min_score, rule })
    }

    /// Reads clusters, with the columns of their members' names and of their own.
    fn read_clusters(&mut self, member: usize, cluster: usize) -> Result<TruthFile> {
        let scope = self.params.scope.unwrap_or(Scope::LabelledDocuments);
        if scope == Scope::LabelledPairs {
            return Err(Error::parameter("scope", scope, SCOPE_OF_CLUSTERS));
        }
        let mut counts = TruthCounts::default();
        // The first record of every cluster.
        let mut first: HashMap<String, Document> = HashMap::new();
        let mut members: Vec<(Document, String)> = Vec::new();
        let mut row = csv::StringRecord::new();
        while let Some(line) = self.table.next(&mut row)? {
            counts.rows += 1;
            match self.resolve(line, &row[member])? {
                Some(record) => {
                    first.entry_ref(&row[cluster]).or_insert(record);
                    members.push((record, row[cluster].to_string()));
                }
                None => {
                    counts.rows_not_in_corpus += 1;
                    counts.names_not_in_corpus += 1;
                }
            }
        }
        let clusters =
            Partition::from_pairs(self.records.count(), members.iter().map(|m| (m.0, first[&m.1])));
        members.sort_unstable();
        for same in members.chunk_by(|a, b| a.0 == b.0) {
            counts.repeats += same.len() as u64 - 1;
            counts.conflicts += u64::from(same.iter().any(|member| member.1 != same[0].1));
        }
        let mut named: Vec<Document> = members.into_iter().map(|member| member.0).collect();
        named.dedup();
        Ok(TruthFile {
            truth: Truth::Clusters { clusters, named },
            scope,
            counts,
            min_score: None,
            rule: Rule::Together,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &str, params: &TruthParams) -> Result<TruthFile> {
        let ids: Vec<String> = ["w", "x", "y", "z", "2", "twin", "twin"].map(str::to_owned).to_vec();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        TruthFile::read(file.path(), &RecordNames::new(&ids)?, params)
    }

    fn judgements(file: &TruthFile) -> Vec<(u32, u32, PairLabel)> {
        match &file.truth {
            Truth::Pairs(pairs) => pairs.iter().map(|p| (p.a.0, p.b.0, p.judgement)).collect(),
            Truth::Clusters { .. } => panic!("clusters"),
        }
    }

    use PairLabel::{Distinct, Duplicate, Unknown};

    #[test]
    fn scores() {
        let text = "a,b,jaccard\n3,1,0.9000\n0,1,0.5100\n0,9,0.8000\n2,2,1.0\n";
        let file = read(text, &TruthParams { min_score: Some(0.8), ..TruthParams::default() }).unwrap();
        assert_eq!(judgements(&file), [(0, 1, Distinct), (1, 3, Duplicate)]);
        assert_eq!((file.scope, &*file.rule.to_string()), (Scope::Corpus, "score >= 0.8"));
        let want = TruthCounts {
            rows: 4,
            rows_not_in_corpus: 1,
            names_not_in_corpus: 1,
            self_pairs: 1,
            lowest_score: Some(0.51),
            ..TruthCounts::default()
        };
        assert_eq!(file.counts, want);
        let refused = |text, least| {
            let params = TruthParams { min_score: Some(least), ..TruthParams::default() };
            read(text, &params).unwrap_err().to_string()
        };
        assert!(refused(text, f64::NAN).starts_with("min-score NaN: expected a number"));
        for without in ["a,b\n0,1\n", "a,b,label,score\n0,1,1,1\n", "record,cluster\n0,1\n"] {
            assert!(
                refused(without, 0.8).starts_with("min-score 0.8: expected a truth of pairs with scores")
            );
        }
        let all = read(text, &TruthParams::default()).unwrap();
        assert_eq!(judgements(&all), [(0, 1, Duplicate), (1, 3, Duplicate)]);
        assert_eq!(all.rule.to_string(), "every listed pair");
    }

    #[test]
    fn labels() {
        let text = "a_id,b_id,label,similarity\nw,x,3,0.1\nx,y,0.5,1\ny,w,unknown,1\nz,x,,1\nw,z,duplicate,0\nz,y,distinct,1\n";
        let file = read(text, &TruthParams::default()).unwrap();
        assert_eq!(
            judgements(&file),
            [
                (0, 1, Duplicate),
                (0, 2, Unknown),
                (0, 3, Duplicate),
                (1, 2, Distinct),
                (1, 3, Unknown),
                (2, 3, Distinct)
            ]
        );
        assert_eq!((file.scope, file.counts.lowest_score), (Scope::LabelledPairs, None));
        let loose = read(text, &TruthParams { min_label: 0.5, ..TruthParams::default() }).unwrap();
        assert_eq!(judgements(&loose)[3], (1, 2, Duplicate));
        assert!(matches!(
            read("a,b,label\n0,1,NaN\n", &TruthParams::default()),
            Err(Error::Table { line: 2, .. })
        ));
    }

    #[test]
    fn judges_who_disagree() {
        let file = read(
            "a,b,label\n0,1,1\n1,0,0\n0,1,1\n2,3,1\n3,2,unknown\n0,4,0\n0,4,0\n",
            &TruthParams::default(),
        );
        let file = file.unwrap();
        assert_eq!(judgements(&file), [(0, 1, Unknown), (0, 4, Distinct), (2, 3, Duplicate)]);
        assert_eq!((file.counts.conflicts, file.counts.repeats), (1, 4));
    }

    #[test]
    fn clusters() {
        let file = read(
            "cluster,record_id,length\nA,w,1\nA,z,1\nA,gone,1\nB,x,1\nB,z,2\nC,2,3\nC,2,3\n",
            &TruthParams::default(),
        );
        let file = file.unwrap();
        let Truth::Clusters { clusters, named } = &file.truth else { panic!() };
        assert_eq!(clusters.labels(), [0, 0, 2, 0, 4, 5, 6]);
        assert_eq!(named[..], [0, 1, 3, 4].map(Document));
        assert_eq!(file.scope, Scope::LabelledDocuments);
        assert_eq!((file.counts.conflicts, file.counts.repeats, file.counts.rows_not_in_corpus), (1, 2, 1));
        // A record that is the first of both its clusters.
        let file = read("cluster,record\nA,0\nA,1\nB,0\nB,2\n", &TruthParams::default()).unwrap();
        assert_eq!(file.counts.conflicts, 1);
        // Our own clusters.csv as a truth; and record numbers, where "2" is the third record
        // and not the one of id "2".
        for text in ["id,url,cluster,size,kept\nw,u,1,2,true\ny,u,1,2,false\n", "record,cluster\n0,1\n2,1\n"]
        {
            let file = read(text, &TruthParams::default()).unwrap();
            let Truth::Clusters { clusters, .. } = &file.truth else { panic!() };
            assert!(clusters.together(Document(0), Document(2)), "{text}");
        }
        let scope = Some(Scope::LabelledPairs);
        assert!(read("record,cluster\n0,1\n", &TruthParams { scope, ..TruthParams::default() }).is_err());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let error = |text| match read(text, &TruthParams::default()) {
            Err(Error::Table { line, expected, .. }) => (line, expected),
            other => panic!("{other:?}"),
        };
        assert_eq!(error("x,y\n1,2\n").0, 1);
        assert_eq!(error("").0, 1);
        assert_eq!(error("a,b\n0,1\n0,x\n"), (3, "a record number, counted from 0,".into()));
        assert_eq!(error("a,b\n0,-1\n").0, 2);
        assert_eq!(error("a,b,jaccard\n0,1,high\n"), (2, "a number".into()));
        assert_eq!(error("a_id,b_id\nw,twin\n"), (2, "an id that only one record of the corpus has".into()));
        assert_eq!(error("a,b\n70,71\n99999999999,1\n"), (2, "a truth about this corpus".into()));
        assert_eq!(
            judgements(&read("a,b\n", &TruthParams::default()).unwrap()),
            [],
            "no duplicates is a truth, too"
        );
    }
}
