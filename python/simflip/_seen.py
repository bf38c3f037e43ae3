"""The index of seen pages."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from simflip import _simflip
from simflip._keywords import options_of, speaks_arrow, texts_of


class Answer(NamedTuple):
    """What an index says about a page: the fields of ``simflip seen --json``."""

    page: str
    """The id that was given, or ``""``."""
    answer: str
    """``new``; ``near``: an earlier page is; ``same``: an earlier page has the same text; ``stale``: near or the
    same, but seen longer ago than ``fresh``."""
    distance: int | None
    """Bits of 64 in which the SimHash of the earlier page differs; None for new pages."""
    earlier: str | None
    """The id of the most similar earlier page; None for new pages."""
    similarity: float | None
    """How similar it is, at most 1, to four decimals; None for new pages."""
    last_seen: str | None
    """When it was last seen (RFC 3339, UTC); None for new pages."""
    near_pages: int
    """Stored pages that are near; 1 for the same text, beside which others are not looked for."""
    at_least: bool
    """Whether there may be more than ``near_pages``."""
    again: bool
    """Whether the answer is one that was given, or may have been given, before."""


def _span(time):
    """A length of time as the command line has it."""
    return f"{time // timedelta(milliseconds=1)}ms" if isinstance(time, timedelta) else str(time)


def _millis(time):
    """A time in milliseconds since 1970; None for now."""
    if time is None:
        return None
    return int(time.timestamp() * 1000) if isinstance(time, datetime) else _simflip.time_of(time)


class Seen:
    """The index of ``simflip seen``: has this page been seen, or one that is nearly the same?

    >>> with simflip.Seen("crawl.seen") as seen:
    ...     answer = seen.check_and_add("the text of a page", "https://example.org/")
    ...     if answer.answer == "new": ...

    One text (a ``str``) gets one `Answer`. Many texts, as `dedup` takes them, get a list of them, and None for each
    row without a text; what is asked sees the rows before it. ``ids`` are the names that pages are stored under, their
    URLs for example: a ``str`` for one text; for many a list of them, or the name of a column.

    An answer counts as heard when the next call stores something, or at `close`. If the process ends before that,
    the pages of the last call are remembered, and asked once more about the same text under the same id the
    index gives the same answer (``again``). So a page that was lost with the process is not taken for a duplicate of
    itself. One process writes to an index at a time; threads may share a `Seen`.
    """

    def __init__(
        self,
        index,
        *,
        read_only=False,
        fsync=False,
        fresh=None,
        method=None,
        similarity=None,
        distance=None,
        recall=None,
        features=None,
        feature_hash=None,
        weighting=None,
        frequencies=None,
        min_features=None,
    ):
        """Opens the index in the folder ``index``, or makes it.

        read_only: open an index that is there to ask alone; another process may write to it meanwhile, whose pages
        so far are seen. fsync: wait until what is remembered is on the disk, so that it outlives a failure of power.
        fresh: a ``timedelta``, or a length of time such as ``"30d"``: pages last seen longer ago are stale.

        The others are the options of ``simflip seen`` for a new index (``method`` both or simhash); an index that is
        there keeps the settings that it was made with, and others are refused.
        """
        given = {
            "index": os.fsdecode(index),
            "fsync": fsync,
            "fresh": None if fresh is None else _span(fresh),
            "method": method,
            "similarity": similarity,
            "distance": distance,
            "recall": recall,
            "features": features,
            "feature_hash": feature_hash,
            "weighting": weighting,
            "frequencies": frequencies,
            "min_features": min_features,
        }
        self.index = given["index"]
        self._native, notes = _simflip.Seen.open(options_of(given), read_only)
        for note in notes:
            logging.getLogger("simflip").warning("%s", note)

    def check(self, texts, ids=None, *, column="text", seen_at=None, progress=None):
        """Asks about a text or many, and stores nothing. Gives an `Answer`, or a list of them.

        seen_at: when the pages were seen, a ``datetime`` or ``str``; now by default.
        """
        return self._work("check", texts, ids, None, column, seen_at, progress)

    def add(self, texts, ids, *, column="text", seen_at=None, progress=None):
        """Stores a text or many under their ids, without a question. A page with the text of an earlier one is not
        stored again: the earlier one is seen again."""
        self._work("add", texts, ids, None, column, seen_at, progress)

    def check_and_add(self, texts, ids, *, requests=None, column="text", seen_at=None, progress=None):
        """Asks about a text or many, each of which is then stored as `add` does. Gives an `Answer`, or a list of them.

        requests: names of the requests, given as ``ids`` are. The answers to the last 65,536 of them are remembered:
        a request that was answered before, for the same text, gets its answer again.
        """
        return self._work("check-and-add", texts, ids, requests, column, seen_at, progress)

    def _work(self, work, texts, ids, requests, column, seen_at, progress):
        one = isinstance(texts, str)
        names = {"ids": ids, "requests": requests}
        if one:
            for what, name in names.items():
                if not (name is None or isinstance(name, str)):
                    raise TypeError(f"{what} of one text is a str, not {type(name).__name__}")
            texts, names = [texts], {what: None if name is None else [name] for what, name in names.items()}
        elif isinstance(texts, Mapping):
            names = {what: texts_of(texts, name) if isinstance(name, str) else name for what, name in names.items()}
            texts = texts_of(texts, column)
        elif not speaks_arrow(texts):
            for what, name in names.items():
                if isinstance(name, str):
                    raise TypeError(f"{what} of a list of texts are a list, not a str")
        answers = self._native.work_on(
            work, texts, column, names["ids"], names["requests"], _millis(seen_at), progress
        )
        if work == "add":
            return None
        answers = [None if fields is None else Answer(*fields) for fields in answers]
        return answers[0] if one else answers

    def remove(self, ids):
        """Removes the pages of an id, or of several, and gives how many went. The files hold no trace of them then."""
        return self._native.remove({ids} if isinstance(ids, str) else set(ids))

    def expire(self, older, *, seen_at=None):
        """Removes the pages that were last seen longer ago than ``older``, a ``timedelta`` or such as ``"365d"``, and
        gives how many went."""
        return self._native.expire(_span(older), _millis(seen_at))

    def close(self):
        """Closes the index: the last answers have been heard. What is closed stays so."""
        self._native.close(True)

    def __len__(self):
        """Pages stored."""
        return len(self._native)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # Whether the last answers were acted upon is not known if that went wrong: they stay in doubt.
        self._native.close(kind is None)

    def __reduce__(self):
        raise TypeError(
            "an index is open in one process: open it in each process, with read_only=True in all but the one that stores"
        )

    def __repr__(self):
        return f"<simflip.Seen {self.index}>"
