from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, overload

from ._result import FolderResult as FolderResult
from ._result import Result as Result
from ._simflip import Column as Column
from ._simflip import Table as Table
from ._simflip import __version__ as __version__

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

_Parts: TypeAlias = _ArrowStream | _ArrowArray | Iterable[_ArrowStream | _ArrowArray]
_Texts: TypeAlias = (
    Iterable[str | None] | _Parts | Mapping[str, Iterable[str | None]] | Iterable[Mapping[str, Any]]
)
_Path: TypeAlias = str | PathLike[str]
_Paths: TypeAlias = _Path | Iterable[_Path]
_Progress: TypeAlias = Callable[[str, int, int, str], object]
_Method: TypeAlias = Literal["both", "simhash", "minhash", "psm", "dial", "bphs"]
_Search: TypeAlias = Literal["auto", "keys", "join", "dial", "psm", "bphs", "bands"]
_Verify: TypeAlias = Literal[
    "none", "weights", "mismatch", "estimate", "jaccard", "containment", "cosine", "edits"
]
_Weighting: TypeAlias = Literal["tf-idf", "tf", "binary"]
_Linkage: TypeAlias = Literal["star", "connected"]
_Keep: TypeAlias = Literal["first", "fullest", "longest", "shortest-url"]
_Write: TypeAlias = Literal["kept", "removed", "documents", "documents.jsonl", "documents.parquet", "none"]
_Index: TypeAlias = Literal["one-table", "all-bits"]

@overload
def dedup(
    data: _Texts,
    *,
    column: str | Iterable[str] = "text",
    url: str | Iterable[str | None] | None = None,
    against: _Texts | None = None,
    out: None = None,
    progress: _Progress | Literal[True] | None = None,
    method: _Method | None = None,
    preset: Literal["removable", "noisy"] | None = None,
    similarity: float | None = None,
    features: str | None = None,
    feature_hash: Literal["product", "murmur3"] | None = None,
    weighting: _Weighting | None = None,
    frequencies: _Path | None = None,
    min_features: int | None = None,
    search: _Search | None = None,
    distance: int | None = None,
    recall: float | None = None,
    index: _Index | None = None,
    budget: int | None = None,
    key_bits: int | None = None,
    tables: int | None = None,
    permutations: int | None = None,
    sketch_bytes: int | None = None,
    bands: str | tuple[int, int] | None = None,
    seed: int | None = None,
    verify: _Verify | None = None,
    verify_threshold: float | None = None,
    clusters: _Linkage | None = None,
    keep: _Keep | None = None,
    keep_count: int | None = None,
    keep_each: Literal["host"] | None = None,
    all_pairs: bool | None = None,
    threads: int | None = None,
) -> Result: ...
@overload
def dedup(
    data: _Paths,
    *,
    out: _Path,
    column: str | Iterable[str] = "text",
    progress: _Progress | Literal[True] | None = None,
    method: _Method | None = None,
    preset: Literal["removable", "noisy"] | None = None,
    similarity: float | None = None,
    features: str | None = None,
    feature_hash: Literal["product", "murmur3"] | None = None,
    weighting: _Weighting | None = None,
    frequencies: _Path | None = None,
    min_features: int | None = None,
    search: _Search | None = None,
    distance: int | None = None,
    recall: float | None = None,
    index: _Index | None = None,
    budget: int | None = None,
    key_bits: int | None = None,
    tables: int | None = None,
    permutations: int | None = None,
    sketch_bytes: int | None = None,
    bands: str | tuple[int, int] | None = None,
    seed: int | None = None,
    verify: _Verify | None = None,
    verify_threshold: float | None = None,
    clusters: _Linkage | None = None,
    keep: _Keep | str | None = None,
    keep_count: int | None = None,
    keep_each: Literal["host", "file", "folder"] | None = None,
    all_pairs: bool | None = None,
    threads: int | None = None,
    force: bool = False,
    write: _Write | list[_Write] | None = None,
    kept_files: Literal["one", "each"] | str | None = None,
    keep_sketches: bool = False,
    memory: str | None = None,
    against: _Path | list[_Path] | None = None,
    text_field: str | None = None,
    id_field: str | None = None,
    url_field: str | None = None,
    longest_document: int | None = None,
    longest_window: int | None = None,
    strict: bool = False,
    settings: _Path | None = None,
    save_frequencies: _Path | None = None,
    boilerplate_by: str | None = None,
    boilerplate: _Path | None = None,
    save_boilerplate: _Path | None = None,
) -> FolderResult: ...

class Explanation:
    def __init__(self, text: str, data: dict[str, Any]) -> None: ...
    def report(self) -> dict[str, Any]: ...

class Answer(NamedTuple):
    page: str
    answer: Literal["new", "near", "same", "stale"]
    distance: int | None
    earlier: str | None
    similarity: float | None
    last_seen: str | None
    near_pages: int
    at_least: bool
    again: bool

_Names: TypeAlias = str | Iterable[str | None] | _ArrowStream | _ArrowArray
# A str is an iterable of str: one text stands first.
_Many: TypeAlias = list[str] | list[str | None] | _ArrowStream | _ArrowArray | Mapping[str, Iterable[str | None]]

class Seen:
    index: str
    def __init__(
        self,
        index: _Path,
        *,
        read_only: bool = False,
        fsync: bool = False,
        fresh: timedelta | str | None = None,
        method: Literal["both", "simhash"] | None = None,
        similarity: float | None = None,
        distance: int | None = None,
        recall: float | None = None,
        features: str | None = None,
        feature_hash: Literal["product", "murmur3"] | None = None,
        weighting: _Weighting | None = None,
        frequencies: _Path | None = None,
        min_features: int | None = None,
    ) -> None: ...
    @overload
    def check(
        self,
        texts: str,
        ids: str | None = None,
        *,
        column: str = "text",
        seen_at: datetime | str | None = None,
        progress: _Progress | None = None,
    ) -> Answer: ...
    @overload
    def check(
        self,
        texts: _Many,
        ids: _Names | None = None,
        *,
        column: str = "text",
        seen_at: datetime | str | None = None,
        progress: _Progress | None = None,
    ) -> list[Answer | None]: ...
    def add(
        self,
        texts: str | _Many,
        ids: _Names,
        *,
        column: str = "text",
        seen_at: datetime | str | None = None,
        progress: _Progress | None = None,
    ) -> None: ...
    @overload
    def check_and_add(
        self,
        texts: str,
        ids: str,
        *,
        requests: str | None = None,
        column: str = "text",
        seen_at: datetime | str | None = None,
        progress: _Progress | None = None,
    ) -> Answer: ...
    @overload
    def check_and_add(
        self,
        texts: _Many,
        ids: _Names,
        *,
        requests: _Names | None = None,
        column: str = "text",
        seen_at: datetime | str | None = None,
        progress: _Progress | None = None,
    ) -> list[Answer | None]: ...
    def remove(self, ids: str | Iterable[str]) -> int: ...
    def expire(self, older: timedelta | str, *, seen_at: datetime | str | None = None) -> int: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Seen: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def decontaminate(
    texts: _Texts,
    against: _Texts,
    *,
    column: str = "text",
    item_column: str | None = None,
    ngram: int = 3,
    share: float = 0.5,
    min_words: int = 8,
    threads: int = 0,
    progress: _Progress | None = None,
) -> Table: ...
def sketch(texts: _Texts, *, column: str = "text", progress: _Progress | None = None, **settings: Any) -> Table: ...
def join(
    sketches: _Parts, *, against: _Parts | None = None, progress: _Progress | None = None, **settings: Any
) -> Table: ...
def clusters(
    n: int,
    pairs: _Parts,
    *,
    clusters: _Linkage = "star",
    keep: Iterable[float] | None = None,
    features: Iterable[int | None] | None = None,
) -> Table: ...
def explain(a: str, b: str, **settings: Any) -> Explanation: ...
def evaluate(
    result: FolderResult | _Path | None = None,
    *,
    truth: _Path | None = None,
    judged: _Path | None = None,
    corpus: _Paths | None = None,
    **options: Any,
) -> dict[str, Any]: ...
