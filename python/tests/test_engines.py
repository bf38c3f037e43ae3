"""Ray and Dask: the rows of a run on one machine, also where a worker dies."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import pandas as pd
import pyarrow as pa
import pytest
import simflip

WORDS = [f"word{number}" for number in range(5000)]


def frame(documents):
    """Documents of a few words of their own each, every third one near the one before, every tenth without text."""
    texts = []
    for document in range(documents):
        own = document - 1 if document % 3 == 2 else document
        words = [WORDS[(own * 7919 + at * at * 31) % 5000] for at in range(60)]
        texts.append(None if document % 10 == 9 else " ".join(words) + (" today" if document % 3 == 2 else ""))
    return pd.DataFrame({"id": range(documents), "text": texts})


def expected(documents, **settings):
    given = frame(documents)
    kept = simflip.dedup(given, **settings).apply(given)
    assert 0 < len(kept) < 0.9 * documents
    return kept["id"].tolist()


@contextmanager
def killed_within(seconds, pid):
    """Kills a process so many seconds after the block begins, which must not have ended by then."""
    killed = []

    def kill():
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        killed.append(time.monotonic())

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    ended = time.monotonic()
    thread.join()
    assert killed and killed[0] < ended


def test_dask_keeps_the_rows_of_one_machine_also_where_a_worker_dies():
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    import simflip.dask

    for settings in ({}, {"similarity": 0.5}, {"method": "simhash", "distance": 3}):
        df = dd.from_pandas(frame(300), npartitions=7)
        kept = simflip.dask.dedup(df, **settings).compute(scheduler="synchronous")
        assert kept["id"].tolist() == expected(300, **settings)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        df = dd.from_pandas(frame(30_000), npartitions=40)
        with killed_within(0.3, next(iter(pids.values()))):
            kept = client.compute(simflip.dask.dedup(df)).result()
    assert kept["id"].tolist() == expected(30_000)
    with pytest.raises(TypeError, match="unexpected keyword argument 'keep'"):
        simflip.dask.dedup(df, keep="longest")


def test_ray_keeps_the_rows_of_one_machine_also_where_a_worker_dies():
    ray = pytest.importorskip("ray")
    import simflip.ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    try:
        for blocks, settings in [(1, {}), (7, {"similarity": 0.5})]:
            ds = ray.data.from_pandas(frame(300)).repartition(blocks)
            kept = simflip.ray.dedup(ds, **settings)
            assert [row["id"] for row in kept.take_all()] == expected(300, **settings)
        pids = ray.get([ray.remote(lambda: (time.sleep(0.5), os.getpid())[1]).remote() for _ in range(2)])
        ds = ray.data.from_arrow([pa.Table.from_pandas(frame(30_000)[at : at + 1000]) for at in range(0, 30_000, 1000)])
        with killed_within(0.3, pids[0]):
            kept = simflip.ray.dedup(ds).take_all()
        assert [row["id"] for row in kept] == expected(30_000)
    finally:
        ray.shutdown()
