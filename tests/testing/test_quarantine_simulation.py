"""Entries at which every shard fails, in the fault simulator: no promise is broken, and replays say the same."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import seed_budget

from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.pipeline.entry_contents import read_names
from tolerant.pipeline.quarantined_rows import letter
from tolerant.testing import Faults, simulate_faults
from tolerant.testing.pipelines import SimulatedPipeline
from tolerant.transport.quarantine import Quarantined, as_marked

POISONED = replace(Faults(), poison=0.02)


def poisoned(seed):
    return simulate_faults(seed, faults=POISONED)


def test_promises_hold_though_entries_are_skipped():
    seed_budget.check(seed_budget.play(poisoned, 240, least=24))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 3_000, 100))
def test_promises_hold_though_entries_are_skipped_in_many_histories(first):
    seed_budget.check({seed: poisoned(seed) for seed in range(first, first + 100)})


def test_entries_are_skipped_at_all():
    histories = [text for seed in range(8) for _, text in simulate_faults(seed, faults=POISONED).history]
    assert sum("into quarantine" in text for text in histories) >= 3


class Careless(BoundedShard):
    """Skips entries without a thought for their items."""

    def _skip(self, skipped):
        self._engine.dead_letters.append(letter(skipped))


def is_caught(**options):
    """Whether a violation is found within some histories; those with other shards or sources of their own left out."""
    return any(not simulate_faults(seed, faults=POISONED, **options).ok for seed in range(8, 160, 4))


def test_widths_that_stay_known_are_caught():
    assert is_caught(shard_factory=Careless)


def test_skipping_without_a_record_is_caught(monkeypatch):
    """The state goes on without the entry, and a replay applies it."""
    plan, restore = SimulatedPipeline._plan, SimulatedPipeline._restore

    def remember(self, entry):
        skipped = Quarantined(entry.topic, entry.position, "poison", 0, tuple(read_names(entry.payload)))
        vars(self).setdefault("secret", {})[entry.position] = as_marked(skipped, entry)
        self._restore()

    def planned(self, whole):
        secret = vars(self).get("secret", {})
        return [secret.get(entry.position, entry) for entry in plan(self, whole)]

    def restored(self):
        restore(self)
        secret, source = vars(self).setdefault("secret", {}), self._host._source
        self._host._source = SimpleNamespace(
            entries=lambda *ends: [secret.get(entry.position, entry) for entry in source.entries(*ends)],
            done=source.done,
            trimmed=source.trimmed,
        )

    monkeypatch.setattr(SimulatedPipeline, "_quarantine", remember)
    monkeypatch.setattr(SimulatedPipeline, "_plan", planned)
    monkeypatch.setattr(SimulatedPipeline, "_restore", restored)
    assert is_caught(shard_factory=BoundedShard)
