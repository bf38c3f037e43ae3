"""Keywords and data as the native part has them."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec

from simflip import _simflip

def options_of(given):
    """Keywords as the command line has them: what is None or False was not given."""
    options = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        # NumPy has truth values of its own.
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            value = bool(value)
        if value is None or value is False:
            continue
        if value is True:
            options.append(option)
        elif name == "bands" and not isinstance(value, str):
            bands, rows = value
            options.append(f"{option}={bands}x{rows}")
        elif isinstance(value, (list, tuple)):
            options += [f"{option}={one}" for one in value]
        else:
            options.append(f"{option}={os.fsdecode(value) if isinstance(value, (os.PathLike, bytes)) else value}")
    return options


def texts_of(data, column):
    """What holds the texts as the native part takes it: the column of a mapping, of a list of mappings or of a Hugging Face
    dataset, or several columns joined; anything else as it is."""
    data = collected(data)
    if comes_in_parts(data):
        return stream_of(data, column, None)[0]
    if is_of(data, "datasets"):
        return _texts_of_dataset(data, column)
    if not isinstance(column, str):
        return _joined([_column(data, name) for name in column])
    if isinstance(data, Mapping) or is_list_of_rows(data):
        return _column(data, column)
    # A column of conversations, or of lists of strings.
    if is_table(data) and columns_of(data).count(column) == 1 and _has_lists(data[column]):
        return [said(value) for value in _values(data[column])]
    if isinstance(data, (list, tuple)) and isinstance(next((it for it in data if it is not None), None), (list, tuple)):
        return [said(value) for value in data]
    return data


def comes_in_parts(data):
    """Whether rows come one after the other or in batches: of an iterator, a reader, a streamed dataset, a list of tables."""
    if isinstance(data, (list, tuple)):
        return bool(data) and speaks_arrow(data[0])
    return hasattr(data, "__iter__") and not hasattr(data, "__len__")


def stream_of(data, column, url):
    """The texts of data that comes in parts, in order, and the URLs of its rows: ``url``, or where it names a column a
    list that grows while the texts are read. Parts are texts, mappings (a row each) and tables."""
    names = [column] if isinstance(column, str) else list(column)
    if hasattr(data, "__arrow_c_stream__") and len(names) == 1 and not _is_nested(data, names[0]):
        return data, url
    if hasattr(data, "readline"):
        # An open file, which the native part refuses.
        return data, url
    is_name = isinstance(url, str)
    urls = [] if is_name else url

    def texts():
        first, is_found = (), False
        for part in data:
            if isinstance(part, Mapping):
                values = [_cell(part, name) for name in names]
                first = first or list(part)
                is_found = is_found or any(name in part for name in names) or _lines(values) is not None
                if is_name:
                    urls.append(_cell(part, url))
                yield _lines(values)
            elif speaks_arrow(part):
                if is_name:
                    urls.extend(_values(_column(part, url)))
                held = texts_of(part, column)
                yield from held if isinstance(held, list) else (held,)
            else:
                yield said(part)
        if first and not is_found:
            raise ValueError(f"column {names[0]}: expected one of {', '.join(map(str, first))}")

    made = texts()
    return (list(made) if hasattr(data, "__len__") else made), urls


def speaks_arrow(data):
    """Whether an object speaks Arrow's PyCapsule interface."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _is_nested(reader, column):
    """Whether a column of a reader of pyarrow holds lists or structs."""
    schema = getattr(reader, "schema", None)
    return is_of(reader, "pyarrow") and column in schema.names and schema.field(column).type.num_fields > 0


def collected(data):
    """The data; of a lazy frame of polars and of a relation of DuckDB, its rows."""
    # A column of a dataset.
    if is_of(data, "datasets") and not hasattr(data, "column_names"):
        return data[:] if hasattr(data, "__len__") else iter(data)
    # Without pyarrow a relation still gives the texts of one column.
    if hasattr(data, "to_arrow_table") and find_spec("pyarrow"):
        return data.to_arrow_table()
    return data.collect() if is_of(data, "polars") and hasattr(data, "collect") else data


def is_table(data):
    """Whether an object is a table of pandas, polars or pyarrow."""
    return any(is_of(data, package) for package in ("pandas", "polars", "pyarrow")) and bool(columns_of(data))


def columns_of(data):
    """The names of the columns of a mapping, of rows, or of a table; none of anything else."""
    if isinstance(data, Mapping):
        return list(data)
    if is_list_of_rows(data):
        return list(dict.fromkeys(name for row in data for name in row))
    names = getattr(data, "column_names", None)
    return list(names if names is not None else getattr(data, "columns", ()))


def _column(data, name):
    """A column of a mapping, of rows, or of a table; also a field of the objects in one, as ``meta.url``."""
    names = columns_of(data)
    if is_list_of_rows(data):
        found = [_cell(row, name) for row in data]
    elif name in names:
        return data[name]
    else:
        first, rest = _inner(name, names) or (None, None)
        found = [_field(row or {}, rest) for row in _values(data[first])] if rest else []
    if name in names or any(value is not None for value in found):
        return [said(value) for value in found]
    raise ValueError(f"column {name}: expected one of {', '.join(map(str, names))}")


def _dotted(name):
    """A name such as ``/meta/url`` as ``meta.url``."""
    return name[1:].replace("/", ".") if name.startswith("/") else name


def _cell(row, name):
    """A value of a row, by the name of a column or as ``meta.url``."""
    return row[name] if name in row else _field(row, _dotted(name))


def _inner(name, names):
    """The column that holds a field such as ``meta.url``, and the field's name in it; None if there is no such column."""
    first, _, rest = _dotted(name).partition(".")
    return (first, rest) if rest and first in names else None


def _field(row, name):
    """A field of a row, by its name or by the names of the objects that it stands in."""
    if name in row:
        return row[name]
    first, _, rest = name.partition(".")
    inner = row.get(first)
    return _field(inner, rest) if rest and isinstance(inner, Mapping) else None


def _values(column):
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return getattr(column, name)()
    return list(column)


def _has_lists(column):
    """Whether the first value of a column is a list."""
    first = next((value for value in _values(column[:100]) if value is not None), None)
    return isinstance(first, (list, tuple)) or is_of(first, "numpy") and getattr(first, "ndim", 0) > 0


def is_of(data, package):
    """Whether an object is of a package, which need not be installed."""
    return type(data).__module__.split(".")[0] == package


def is_list_of_rows(data):
    """Whether an object is a list of mappings, a row each."""
    return isinstance(data, (list, tuple)) and bool(data) and isinstance(data[0], Mapping)


def said(value):
    """A text; of a list of strings or messages, what they say, a line each."""
    if is_of(value, "numpy") and getattr(value, "ndim", 0) > 0:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return value
    texts = []
    for part in value:
        while isinstance(part, Mapping):
            part = next((part[name] for name in ("content", "value", "text") if name in part), None)
        part = said(part)
        if part is not None:
            texts.append(part)
    return "\n".join(texts) if texts else None


def _texts_of_dataset(data, column):
    if isinstance(data, Mapping):
        if not all(hasattr(split, "__len__") for split in data.values()):
            raise ValueError(
                f"a {type(data).__name__} has several streams: give one of them, data[{next(iter(data), 'train')!r}]; "
                "against= removes from it what another one has"
            )
        parts = [_texts_of_dataset(split, column) for split in data.values()]
        return [text for part in parts for text in (part if isinstance(part, list) else [part])]
    columns = [column] if isinstance(column, str) else list(column)
    inner = {name: _inner(name, data.column_names) for name in columns if name not in data.column_names}
    for name in (name for name, found in inner.items() if found is None):
        raise ValueError(f"column {name}: expected one of {', '.join(data.column_names)}")
    stored = list(dict.fromkeys(inner[name][0] if name in inner else name for name in columns))
    # Rows in the order of the dataset, also where it was shuffled or some were selected.
    table = data.select_columns(stored).with_format("arrow")[:]
    if columns == stored and len(columns) == 1 and str(table.schema.types[0]) in ("string", "large_string", "string_view"):
        return table.column(0)
    return _joined([[said(value) for value in _values(_column(table, name))] for name in columns])


def _lines(values):
    """What several values say, a line each; None where none says anything."""
    texts = [text for text in map(said, values) if text is not None]
    return "\n".join(texts) if texts else None


def _joined(columns):
    """The texts of several columns, a line each; None where all are."""
    # Where pandas has no text it has a number.
    rows = ([text for text in row if isinstance(text, str)] for row in zip(*map(_values, columns), strict=True))
    return ["\n".join(texts) if texts else None for texts in rows]


def kept_of(rows, number, data):
    """The rows of ``data`` that are kept, in the form of ``data``, which had ``number`` rows."""
    if isinstance(data, Mapping) and not is_of(data, "datasets"):
        return {name: kept_of(rows, number, column) for name, column in data.items()}
    if is_of(data, "datasets") and isinstance(data, Mapping):
        parts = list(_kept_of_parts(rows, number, data.values()))
        return type(data)(zip(data, parts, strict=True))
    if is_of(data, "datasets") and not hasattr(data, "__len__"):
        return _kept_of_stream(rows, number, data)
    if (held := collected(data)) is not data:
        simflip_kept_rows_of_apply = kept_of(rows, number, held)
        if is_of(data, "datasets"):
            return simflip_kept_rows_of_apply
        if hasattr(simflip_kept_rows_of_apply, "lazy"):
            return simflip_kept_rows_of_apply.lazy()
        # DuckDB looks for the name among its own tables first, and then among the variables here.
        return data.query("given_to_simflip", "select * from simflip_kept_rows_of_apply")
    if comes_in_parts(data):
        kept = _kept_of_parts(rows, number, data)
        if hasattr(data, "__len__"):
            return type(data)(kept)
        return type(data).from_batches(data.schema, kept) if hasattr(data, "from_batches") else kept
    if len(data) != number:
        raise ValueError(f"expected the {number} rows that were deduplicated, not {len(data)}")
    if is_of(data, "datasets"):
        return data.select(rows)
    if is_of(data, "pandas"):
        return data.iloc[rows]
    if not rows:
        return data[:0]
    if is_of(data, "pyarrow"):
        return data.take(rows)
    if isinstance(data, (list, tuple)):
        return type(data)(data[row] for row in rows)
    # numpy and polars
    return data[rows]


def _kept_of_parts(rows, number, parts):
    """Those of the parts that are kept, and of tables the kept rows."""
    at = 0
    for part in parts:
        is_table = speaks_arrow(part) or is_of(part, "datasets")
        end = at + (len(part) if is_table else 1)
        kept = rows[bisect_left(rows, at) : bisect_left(rows, end)]
        if is_table:
            yield kept_of([row - at for row in kept], len(part), part)
        elif kept:
            yield part
        at = end
    if at != number:
        raise ValueError(f"expected the {number} rows that were deduplicated, not {at}")


def _kept_of_stream(rows, number, data):
    """A stream of Hugging Face with the kept rows. It is one source: in a filter by row numbers, shuffling and workers
    would count the rows of each shard from 0."""
    from datasets.iterable_dataset import ExamplesIterable, IterableDataset

    source = ExamplesIterable(partial(_kept_examples, set(rows), number, data), {})
    return IterableDataset(
        source, data.info, data.split, formatting=data._formatting, token_per_repo_id=getattr(data, "_token_per_repo_id", None)
    )


def _kept_examples(rows, number, data):
    """The kept rows of a stream of Hugging Face, as they are stored."""
    data = data.with_format(None)
    data = data.decode(False) if data.features and hasattr(data, "decode") else data
    # A loop over the data itself would read the shards of one worker alone; batches are of all.
    at = -1
    for at, row in enumerate(data.iter(batch_size=1)):
        if at in rows:
            yield at, {name: value for name, (value,) in row.items()}
    if at + 1 != number:
        raise ValueError(f"expected the {number} rows that were deduplicated, not {at + 1}")


def check_names(function, names, of_texts):
    """Answers keywords of other tools with what they are called here."""
    for name in names:
        called = _simflip.called_here(name, of_texts)
        if called is not None:
            raise TypeError(f"{function}() has no keyword argument {name!r}: here it is called {called}")


def check_settings(function, settings, known):
    """Refuses settings that a function does not have."""
    check_names(function, settings, True)
    for name in settings:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def progress_of(progress):
    """What is called with the progress: for True, what prints it on standard error."""
    if progress is not True:
        return progress

    def printed(stage, done, total, unit):
        share = f" {100 * done // total} %" if total else ""
        end = "\n" if total and done >= total else ""
        print(f"\r{stage}: {done:,} {unit}{share}\033[K", end=end, file=sys.stderr, flush=True)

    return printed


def paths_of(data):
    """The paths that are given, one or several."""
    if is_table(data) or speaks_arrow(data) or is_list_of_rows(data) or is_of(data, "datasets"):
        raise TypeError("with out=, data names files; without it, a table is deduplicated in memory")
    if isinstance(data, (str, bytes, os.PathLike)):
        data = [data]
    paths = [os.fsdecode(path) for path in data]
    # What begins with a dash would be taken for an option; a dash alone is standard input.
    return [os.path.join(os.curdir, path) if path.startswith("-") and path != "-" else path for path in paths]
