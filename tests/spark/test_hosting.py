"""The host of a core, in PySpark's in-memory tester: state store and worker memory must tell the same story."""

from collections.abc import Iterator

import pandas as pd
import pytest
from chain_core import Chain, expected
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.tws_tester import TwsTester

from tolerant.pipeline.hosting import unpack_outputs
from tolerant.spark import cache, processor
from tolerant.spark.processor import HostProcessor, StateError
from tolerant.transport import rows
from tolerant.transport.log import Entry


def entries(count: int, size: int = 10) -> list[Entry]:
    return [Entry("updates.s", 0, position, bytes([position % 251]) * size) for position in range(1, count + 1)]


def frame(batch: list[Entry]) -> pd.DataFrame:
    return pd.DataFrame([vars(entry) for entry in batch])


def said(tester: TwsTester, batch: list[Entry], shard: int = 0) -> list[dict[str, int]]:
    out = tester.testInPandas(shard, frame(batch))
    packed = out["outputs"] if len(out) else []
    return [rows.unpack(payload).to_pylist()[0] for one in packed for _, payload in unpack_outputs(one)]


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def made() -> list[Chain]:
    """The cores that were made so far."""
    return []


@pytest.fixture
def tester(made: list[Chain]) -> TwsTester:
    def factory(shard: int) -> Chain:
        made.append(Chain(shard))
        return made[-1]

    return TwsTester(HostProcessor(factory, "run"))


def test_batches_come_out_as_if_they_were_one(tester: TwsTester, made: list[Chain]) -> None:
    all_of_them = entries(9)
    out = [row for i in range(0, 9, 3) for row in said(tester, all_of_them[i : i + 3])]
    assert out == expected(all_of_them)
    assert len(made) == 1


def test_entries_are_put_in_log_order(tester: TwsTester) -> None:
    assert said(tester, entries(5)[::-1]) == expected(entries(5))


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12), st.integers(0, 40))
def test_restoring_and_going_on_is_going_on(cuts: list[tuple[int, bool]], light: int) -> None:
    """However the entries are cut into batches, wherever the memory is lost, whenever deltas are folded."""
    before, processor._LIGHT = processor._LIGHT, light * 100
    try:
        cache.clear()
        tester = TwsTester(HostProcessor(Chain, "run"))
        log = entries(sum(count for count, _ in cuts))
        out, position = [], 0
        for count, lost in cuts:
            if lost:
                cache.clear()
            out += said(tester, log[position : position + count])
            position += count
        assert out == expected(log)
    finally:
        processor._LIGHT = before


def test_a_lost_memory_is_rebuilt_from_the_store(tester: TwsTester, made: list[Chain]) -> None:
    first = said(tester, entries(6)[:3])
    cache.clear()
    assert first + said(tester, entries(6)[3:]) == expected(entries(6))
    assert len(made) == 2


def test_memory_of_another_state_is_not_used(tester: TwsTester, made: list[Chain]) -> None:
    """A task whose writes were thrown away leaves a core in memory that the store knows nothing of."""
    said(tester, entries(6)[:2])
    kept = {name: dict(state.state) for name, state in tester.handle.value_states.items()}
    deltas = {key: list(held) for key, held in tester.handle.list_states["deltas"].state.items()}
    said(tester, entries(6)[2:4])
    for name, state in kept.items():
        tester.handle.value_states[name].state = state
    tester.handle.list_states["deltas"].state = deltas
    assert said(tester, entries(6)[2:4]) == expected(entries(6))[2:4]
    assert said(tester, entries(6)[4:]) == expected(entries(6))[4:]
    assert len(made) == 2


def test_a_core_that_raises_is_not_kept(tester: TwsTester, made: list[Chain], monkeypatch: pytest.MonkeyPatch) -> None:
    said(tester, entries(4)[:2])
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "apply", lambda self, batch: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            said(tester, entries(4)[2:])
    assert said(tester, entries(4)[2:]) == expected(entries(4))[2:]
    assert len(made) == 2


def test_a_state_that_cannot_be_read_says_what_to_do(tester: TwsTester, monkeypatch: pytest.MonkeyPatch) -> None:
    said(tester, entries(4)[:2])
    cache.clear()
    monkeypatch.setattr(Chain, "restore", lambda self, snapshot, deltas: {}["no such array"])
    with pytest.raises(StateError, match=r"state of shard 0 .*KeyError.* run with an empty --checkpoint folder"):
        said(tester, entries(4)[2:])


def test_a_write_that_fails_leaves_nothing_in_memory(
    tester: TwsTester, made: list[Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(tester, entries(4)[:2])
    deltas = tester.handle.list_states["deltas"]
    with monkeypatch.context() as patch:
        patch.setattr(type(deltas), "appendValue", lambda self, value: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            said(tester, entries(4)[2:])
    assert said(tester, entries(4)[2:]) == expected(entries(4))[2:]
    assert len(made) == 2


def test_deltas_are_folded_when_they_outweigh_the_snapshot(tester: TwsTester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_LIGHT", 5_000)
    folds = 0
    for entry in entries(40, size=1_000):
        said(tester, [entry])
        _, snapshot, weight, count = tester.peekValueState("stamp", 0)
        held = tester.peekListState("deltas", 0)
        assert (sum(len(data) for (data,) in held), len(held)) == (weight, count)
        assert weight <= 5_000
        folds += count == 0
        assert snapshot == 1_016  # that of the newly born core is as large
    assert 3 < folds < 20


def test_shards_are_apart(tester: TwsTester, made: list[Chain]) -> None:
    assert [row["shard"] for shard in (0, 1) for row in said(tester, entries(2), shard)] == [0, 0, 1, 1]
    assert [row["count"] for row in said(tester, entries(3)[2:], 1)] == [3]
    assert len(made) == 2


def test_pipelines_are_apart() -> None:
    first, second = TwsTester(HostProcessor(Chain, "one")), TwsTester(HostProcessor(Chain, "two"))
    assert said(first, entries(2)) == said(second, entries(2))


def test_a_later_run_goes_on_with_what_the_first_gave_birth_to() -> None:
    """Another run's newly born core is another: of a newer epoch, for one."""

    class Salted(Chain):
        def __init__(self, shard: int, salt: int) -> None:
            super().__init__(shard)
            self.apply([Entry("born", 0, 0, bytes([salt]))])

    first = HostProcessor(lambda shard: Salted(shard, 1), "one")
    tester = TwsTester(first)
    out = said(tester, entries(4)[:2])
    first._factory, first._pipeline = (lambda shard: Salted(shard, 2)), "two"
    whole = TwsTester(HostProcessor(lambda shard: Salted(shard, 1), "whole"))
    assert out + said(tester, entries(4)[2:]) == said(whole, entries(4))
