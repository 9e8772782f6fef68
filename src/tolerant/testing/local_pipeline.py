"""A pipeline in this process, without Spark: its shard on a log, moved by hand or by a background thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from tolerant.client import StatementClient
from tolerant.edge import Source, Table
from tolerant.kinds import shard_factory
from tolerant.pipeline.hosting import Hosted
from tolerant.pipeline.inputs import Relation, clocks_of, input_topics, partitioning_of, served_relations
from tolerant.sql import Catalogue, PipelineId, Statement, Subscribe, Unsubscribe
from tolerant.sql.pipeline_inputs import Views
from tolerant.streams import SECOND
from tolerant.testing.several_shards import SeveralShards
from tolerant.testing.shard_history import ShardHistory
from tolerant.transport import MemoryLog, PipelineLog
from tolerant.transport.log import START
from tolerant.transport.rows import unpack


class LocalPipeline:
    """Runs one pipeline of a log: reads its entries, applies them to the shard that Spark would host, appends what the
    shard publishes.

    statements: sent to the log first: a text, of which the log gets what it does not hold yet, or statements.
    log: the log; default: a new one in memory. Looking rows up (`KEEP n ROWS` with a table of a file) takes one that
        its URI opens.
    pipeline: the id of the pipeline, such as "traffic" or "lines+orders", where the log needs several.
    make_shard: makes a shard in the place of the one that the kind of query has; pipelines of views take one.
    now: event time at the start, microseconds; `tick` moves it on by a second.
    clock: event time in microseconds: `tick` goes by it instead.
    checkpoint, epoch: whose clock rows are appended.

    A restart does not read the log again: `restart` makes a new shard from the last `take_snapshot` and the batches
    since. A `with` block runs it in the background: it ticks if it has a `clock`, and else reads what is appended.
    Its methods may then be called as before; other threads wait for their turn.

    >>> pipeline = LocalPipeline('''
    ...     CREATE TABLE stock (id BIGINT, price DOUBLE) KEY (id);
    ...     CREATE QUERY cheap AS SELECT * FROM stock WHERE price BETWEEN 0 AND 10;
    ... ''')
    >>> moment = pipeline.table().insert(id=1, price=5.0)
    >>> pipeline.tick()
    >>> [(row["kind"], row["row.price"]) for row in pipeline.rows("answers.cheap")]
    [('insert', 5.0)]
    """

    def __init__(
        self,
        statements: str | Iterable[Statement] = (),
        *,
        log: PipelineLog | None = None,
        pipeline: str | None = None,
        make_shard: Callable[[], Hosted] | None = None,
        now: int = 1_000_000 * SECOND,
        clock: Callable[[], int] | None = None,
        checkpoint: str = "checkpoint",
        epoch: int = 1,
    ) -> None:
        self.log: PipelineLog = MemoryLog() if log is None else log
        self.statements = StatementClient(self.log)
        for statement in [statements] if isinstance(statements, str) else statements:
            self.send(statement)
        self.relation: Relation = _relation(self.statements.catalogue(), pipeline)
        self.topics = input_topics(self.relation)
        self.checkpoint, self.epoch = checkpoint, epoch
        self._clock = clock
        self.now = now if clock is None else clock()
        self._tables: dict[str, Table] = {}
        self._sources: dict[str, Source] = {}
        self._make_shard = make_shard
        self.shard, self.history, self.position = self.new_shard(), ShardHistory(), START
        self._turn = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    # -- what it is fed --------------------------------------------------------------------------------------------

    def send(self, statement: str | Statement) -> None:
        """Send a statement, or those of a text that the log does not hold yet.

        Raises:
            StatementError: the text or the subscription could not be accepted; nothing was sent.
        """
        if isinstance(statement, str):
            self.statements.register(statement)
        elif isinstance(statement, Subscribe | Unsubscribe):
            self.statements.send_subscription(statement)
        else:
            self.statements.send(statement)

    def table(self, name: str | None = None) -> Table:
        """The `Table` that feeds a table of the pipeline at `now`; `tick` flushes it. Default: the only table."""
        name = self.relation.name if name is None else name
        if name not in self._tables:
            self._tables[name] = Table(name, self.log, "local", clock=lambda: self.now)
        return self._tables[name]

    def source(self, name: str = "local") -> Source:
        """The `Source` of this name, which feeds the pipeline's stream at `now`; `tick` advances it."""
        if name not in self._sources:
            self._sources[name] = Source(self.relation.name, self.log, name, clock=lambda: self.now)
        return self._sources[name]

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, count: int = 1, *, cut: int | None = None) -> None:
        """Let a second pass, `count` times; all that was recorded before is applied. `cut` is that of `read`."""
        with self._turn:
            for _ in range(count):
                self.flush()
                self.now = self.now + SECOND if self._clock is None else max(self.now, self._clock())
                self.advance()
                self.append_clocks()
                self.read(cut)

    def flush(self) -> None:
        """Append the rows of the tables, before time moves."""
        for table in self._tables.values():
            table.flush()

    def advance(self) -> None:
        """Let the sources take their grants and append their rows, after time has moved."""
        for source in self._sources.values():
            source.advance()

    def append_clocks(self) -> None:
        """Append a clock row of `now` to each topic of rows."""
        for topic, row in clocks_of(self.relation, self.now, self.epoch, self.checkpoint).items():
            self.log.append(topic, row)

    # -- the shard -------------------------------------------------------------------------------------------------

    def new_shard(self) -> Hosted:
        """An empty shard; where the pipeline has several, all of them behind their splitter."""
        if self._make_shard is not None:
            return self._make_shard()
        if isinstance(self.relation, Views):
            raise ValueError(
                f"{self.relation.name} runs SQL on Spark: expected make_shard= with a shard to use instead"
            )
        factory = shard_factory(self.relation, self.epoch, self.checkpoint, self.log.uri)
        split = partitioning_of(self.relation)
        return factory(0) if split is None else SeveralShards(split, [factory(shard) for shard in range(split.shards)])

    def read(self, cut: int | None = None) -> None:
        """Apply what the log holds, in batches of at most `cut` entries, and append the outputs of each."""
        with self._turn:
            entries = self.log.read(self.topics, self.position)
            size = cut or max(len(entries), 1)
            for start in range(0, len(entries), size):
                batch = entries[start : start + size]
                outputs = self.shard.apply(batch)
                self.log.append_packed([(output.topic, output.payload) for output in outputs])
                self.history.add(batch)
                self.position = batch[-1].position

    def take_snapshot(self) -> None:
        """Take a snapshot of the shard, which `restart` begins with."""
        with self._turn:
            self.history.fold(self.shard.snapshot())

    def restart(self) -> None:
        """Replace the shard as after a crash: by one that is restored from the last snapshot and the batches since."""
        with self._turn:
            self.shard = self.new_shard()
            self.history.restore(self.shard)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The rows of a topic, such as "answers.total" or "dead_letters.stock"."""
        return [row for entry in self.log.read(topic) for row in unpack(entry.payload).to_pylist()]

    # -- in the background -----------------------------------------------------------------------------------------

    def start(self, pause: float = 0.05) -> Self:
        """Run in a background thread from now on, with pauses of so many seconds."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(pause,), name="local pipeline", daemon=True)
        self._thread.start()
        return self

    def check(self) -> None:
        """Raise the error that ended the background thread, if one did."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the background thread; it finishes the batch under way."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self.check()

    def _run(self, pause: float) -> None:
        step = self.read if self._clock is None else self.tick
        try:
            while not self._stopping.wait(pause):
                step()
        except Exception as error:
            self._failure = error


def _relation(catalogue: Catalogue, pipeline: str | None) -> Relation:
    """The relation of a pipeline; `None`: of the only one that the catalogue needs.

    Raises:
        ValueError: there is no such pipeline, or there is not exactly one.
    """
    also = [] if pipeline is None else [PipelineId.parse(pipeline)]
    served = served_relations(catalogue, also) or dict(catalogue.tables)
    if pipeline is None and len(served) == 1:
        (pipeline,) = served
    if pipeline is None or pipeline not in served:
        listed = ", ".join(sorted(served)) or "nothing that needs one"
        raise ValueError(f"expected the id of one pipeline of the log, got pipeline={pipeline!r}; it has {listed}")
    return served[pipeline]
