"""Keywords and data as the native part has them."""

from __future__ import annotations

import os
from collections.abc import Mapping


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
    """The column of a mapping of columns; anything else as it is."""
    if isinstance(data, Mapping):
        if column not in data:
            raise ValueError(f"column {column}: expected one of {', '.join(map(str, data))}")
        return data[column]
    return data


def paths_of(data):
    """The paths that are given, one or several."""
    if isinstance(data, (str, bytes, os.PathLike)):
        data = [data]
    paths = [os.fsdecode(path) for path in data]
    # What begins with a dash would be taken for an option; a dash alone is standard input.
    return [os.path.join(os.curdir, path) if path.startswith("-") and path != "-" else path for path in paths]
