"""Near-duplicates in datatrove: two steps before datatrove's own filter, which drops what can go.

    python datatrove_dedup.py PAGES_FOLDER WORK_FOLDER TASKS

Stage 1, any number of tasks: `SimflipSketch` writes a table of sketches for its share of the documents. Stage 2, one
task: `SimflipJoin` finds the near pairs among all sketches and writes, for each task of stage 1, the documents that
can go. Stage 3, as many tasks as stage 1: `MinhashDedupFilter` drops them. What crosses between stages is sketches,
about 270 bytes a document, and never texts.

Which copy stays is the first by task and then by place, so give each file a task of its own to have it as
``simflip dedup`` does. Needs datatrove[io], pyarrow and numpy.
"""

import struct
import sys

import simflip
import numpy as np
import pyarrow as pa
from datatrove.io import get_datafolder
from datatrove.pipeline.base import PipelineStep
from datatrove.utils.typeshelper import StatHints


class SimflipSketch(PipelineStep):
    """Writes the sketches of a task's documents, and passes none on. Settings are the keywords of `simflip.sketch`."""

    name = "simflip, stage 1: sketch"
    type = "🫂 - DEDUP"

    def __init__(self, output_folder, batch=4096, **settings):
        super().__init__()
        self.output_folder = get_datafolder(output_folder)
        self.batch = batch
        self.settings = settings

    def run(self, data, rank=0, world_size=1):
        texts, writer = [], None
        with self.output_folder.open(f"{rank:06d}.arrow", "wb") as file:

            def write():
                nonlocal writer
                table = pa.table(simflip.sketch(texts, **self.settings))
                writer = writer or pa.ipc.new_file(file, table.schema)
                writer.write_table(table)
                texts.clear()

            for document in data:
                self.stat_update(StatHints.total)
                with self.track_time():
                    texts.append(document.text)
                    if len(texts) == self.batch:
                        write()
            with self.track_time():
                # A task without documents writes a table without rows.
                if texts or writer is None:
                    write()
                writer.close()
        return
        yield


class SimflipJoin(PipelineStep):
    """Finds the near pairs among all sketches; settings are those of `SimflipSketch`. One task."""

    name = "simflip, stage 2: join"
    type = "🫂 - DEDUP"

    def __init__(self, input_folder, output_folder, clusters="star", **settings):
        super().__init__()
        self.input_folder = get_datafolder(input_folder)
        self.output_folder = get_datafolder(output_folder)
        self.clusters = clusters
        self.settings = settings

    def run(self, data=None, rank=0, world_size=1):
        if world_size != 1:
            raise ValueError("SimflipJoin compares all documents with each other, in one task")
        names = sorted(name for name in self.input_folder.list_files() if name.endswith(".arrow"))
        with self.track_time():
            tables = []
            for name in names:
                with self.input_folder.open(name, "rb") as file:
                    tables.append(pa.ipc.open_file(file).read_all())
            sketches = pa.concat_tables(tables)
            pairs = simflip.join(sketches, **self.settings)
            members = simflip.clusters(len(sketches), pairs, clusters=self.clusters)
            page, cluster, size, kept = (np.asarray(members[column]) for column in members.columns)
            ends = np.cumsum([len(table) for table in tables])
            for name, table, end in zip(names, tables, ends, strict=True):
                here = np.flatnonzero((page >= end - len(table)) & (page < end))
                # In the order of the task's documents.
                here = here[np.argsort(page[here])]
                self.write(name, page[here] - (end - len(table)), cluster[here], size[here], kept[here])
        self.stat_update("pairs", value=len(pairs))
        self.stat_update(StatHints.dropped, value=int((~kept).sum()))

    def write(self, name, place, cluster, size, kept):
        """Writes the files that datatrove's filter reads: places in the task, from 0, ascending."""
        name = name.removesuffix(".arrow")
        with self.output_folder.open(f"{name}.remove", "wb") as file:
            file.write(b"".join(struct.pack("<I", int(p)) for p in place[~kept]))
        for kind, values in [("clusters", cluster), ("sizes", size)]:
            with self.output_folder.open(f"{name}.{kind}", "wb") as file:
                file.write(b"".join(struct.pack("<II", int(p), int(v)) for p, v in zip(place, values, strict=True)))


def main(pages, work, tasks, **settings):
    """Runs the three stages over the JSONL files of a folder. Kept pages go to ``WORK_FOLDER/kept``."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupFilter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    def stage(number, steps, tasks, depends=None):
        return LocalPipelineExecutor(
            pipeline=steps, tasks=tasks, workers=1, logging_dir=f"{work}/logs/{number}", depends=depends
        )

    read = JsonlReader(pages)
    sketch = stage(1, [read, SimflipSketch(f"{work}/sketches", **settings)], tasks)
    join = stage(2, [SimflipJoin(f"{work}/sketches", f"{work}/remove", **settings)], 1, sketch)
    drop = MinhashDedupFilter(f"{work}/remove", load_cluster_ids=True, load_cluster_sizes=True)
    stage(3, [JsonlReader(pages), drop, JsonlWriter(f"{work}/kept")], tasks, join).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
