from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

_Path: TypeAlias = str | PathLike[str]

class DataFrameResult:
    documents: DataFrame
    pairs: DataFrame
    def unpersist(self) -> None: ...

class FilesResult:
    sketches: str
    out: str
    summary: dict[str, Any]

def dedup(
    df: DataFrame,
    text: str = "text",
    id: str = "id",
    *,
    clusters: Literal["star", "connected"] = "star",
    partitions: int | None = None,
    preset: Literal["removable", "noisy"] | None = None,
    similarity: float | None = None,
    recall: float | None = None,
    features: str | None = None,
    feature_hash: Literal["product", "murmur3"] | None = None,
    min_features: int | None = None,
    sketch_bytes: int | None = None,
    bands: str | tuple[int, int] | None = None,
    seed: int | None = None,
    verify: Literal["estimate"] | None = None,
    verify_threshold: float | None = None,
) -> DataFrameResult: ...
def dedup_files(
    spark: SparkSession,
    paths: _Path | Iterable[_Path],
    *,
    sketches: _Path,
    out: _Path,
    clusters: Literal["star", "connected"] = "star",
    write: Literal["kept", "removed"] | list[Literal["kept", "removed"]] | None = None,
    partitions: int | None = None,
    **settings: Any,
) -> FilesResult: ...
