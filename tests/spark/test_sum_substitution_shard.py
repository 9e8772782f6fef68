"""Sums in place of items, between sources and shard: far fewer messages, no promise broken, there and back."""

import numpy as np
import pytest
from stream_pipeline import key
from sum_substitution_play import Play

from tolerant.filters.form_costs import ITEMS, QUERIES
from tolerant.kinds.bounded.sum_phases import Phase
from tolerant.sql import parse
from tolerant.streams import is_sum
from tolerant.transport.rows import unpack

HOSTS = [f"h{number}" for number in range(20)]
AVERAGE = "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WITHIN 1"
POLICIES = ["adaptive", "predictive"]


def walks(seed: int, count: int = 20, ticks: int = 600) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(0, 1, (ticks, count)), axis=0)


def readings(row: np.ndarray) -> dict[str, float]:
    return dict(zip(HOSTS, row.tolist(), strict=False))


def run(play: Play, values: np.ndarray) -> Play:
    if "s" not in play.pipeline.sources:
        play.start("s")
    for row in values:
        play.tick({"s": readings(row)})
    return play


# -- what it saves ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_an_average_of_one_source_takes_far_fewer_messages(policy):
    values = walks(1)
    apart = run(Play(AVERAGE, policy=policy, formed=False), values)
    together = run(Play(AVERAGE, policy=policy), values)
    before = {name: play.messages() for name, play in {"apart": apart, "together": together}.items()}
    more = values[-1] + walks(2, ticks=200)
    run(apart, more)
    run(together, more)
    whole = np.concatenate([values, more]).mean(axis=1)
    apart.check("q", whole, 1)
    together.check("q", whole, 1)
    assert together.phases() == [Phase.FORMED]
    # Twenty like walks: up to 400 times fewer, beats left out, which a source with nothing to say sends.
    beats = together.counted()["heartbeat"]
    assert together.messages() - beats - before["together"] < 0.02 * (apart.messages() - before["apart"])


@pytest.mark.parametrize("policy", POLICIES)
def test_sums_of_a_source_whose_items_are_in_several_shards(policy):
    hosts, kinds = [f"h{number}" for number in range(6)], [f"k{number}" for number in range(5)]
    query = "CREATE QUERY q AS SELECT host, AVG(rate) FROM traffic GROUP BY host WITHIN 1"
    names = [f"{host}/{kind}" for host in hosts for kind in kinds]
    values = walks(6, len(names), 400)
    counts = {}
    for formed in (True, False):
        play = Play(query, policy=policy, shards=2, formed=formed)
        play.start("s")
        for row in values:
            play.tick({"s": dict(zip(names, row.tolist(), strict=True))})
        counts[formed] = play.messages()
        for number, host in enumerate(hosts):
            truth = values[:, number * len(kinds) : (number + 1) * len(kinds)].mean(axis=1)
            play.check("q", truth, 1, group=host)
        formed_by = [len(shard._engine.sums.groups) for shard in play.pipeline.shard.shards]
        assert all(formed_by)
    assert counts[True] < 0.6 * counts[False]


def test_sums_are_formed_where_that_pays_and_given_up_when_activity_moves_to_a_shared_item():
    narrow = "CREATE QUERY narrow AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h1') WITHIN 4"
    wide = "CREATE QUERY wide AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h1', 'h2') WITHIN 6"
    random = np.random.default_rng(3)
    steps = np.where(np.arange(1300)[:, None] < 450, [1.0, 1.0, 1.0], [2.0, 0.0, 0.0])
    values = np.cumsum(random.normal(0, 1, (1300, 3)) * steps, axis=0)
    play, phases = Play(narrow, wide, policy="adaptive"), []
    play.start("s")
    for row in values:
        play.tick({"s": readings(row)})
        phases.append(max(play.phases(), key=lambda phase: phase.value, default=Phase.OFFERED))
    play.check("narrow", values[:, :2].sum(axis=1), 4)
    play.check("wide", values.sum(axis=1), 6)
    assert phases[250] == Phase.FORMED
    assert phases[-1] == Phase.OFFERED
    assert Phase.PARTING in phases


def test_tolerances_far_apart_favour_sums():
    narrow = "CREATE QUERY narrow AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h1') WITHIN 1"
    wide = "CREATE QUERY wide AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h2') WITHIN 50"
    values = walks(4, 3, 500)
    apart, together = run(Play(narrow, wide, formed=False), values), run(Play(narrow, wide), values)
    for play in (apart, together):
        play.check("narrow", values[:, :2].sum(axis=1), 1)
        play.check("wide", values[:, [0, 2]].sum(axis=1), 50)
    assert together.phases() == [Phase.FORMED]
    assert together.counted()["update"] < 0.85 * apart.counted()["update"]


# -- what comes between -----------------------------------------------------------------------------------------------


def formed(policy: str = "predictive", *statements: str, hosts: int = 4) -> tuple[Play, np.ndarray]:
    """A play in which the sums of one source have just been formed, and the readings after that."""
    play = Play(*(statements or (AVERAGE,)), policy=policy, form=QUERIES)
    play.start("s")
    values = walks(5, hosts, 400) / 10
    for row in values[:30]:
        play.tick({"s": readings(row)})
    assert Phase.FORMED in play.phases()
    return play, values[30:]


def truth(play: Play) -> list[float]:
    return [float(np.mean(list(row.values()))) for row in play.truth]


@pytest.mark.parametrize("policy", POLICIES)
def test_there_and_back_without_an_unsettled_answer(policy):
    play, values = formed(policy)
    seen = set()
    for tick, row in enumerate(values[:200]):
        play.form = (QUERIES, ITEMS)[tick // 25 % 2]
        play.tick({"s": readings(row)})
        seen.update(play.phases())
    assert seen == set(Phase) - {Phase.ENDED}
    play.check("q", truth(play), 1)
    present = play.pipeline.shard._engine.registry.items()
    names = play.pipeline.shard._engine._coordinator.membership.item_names
    assert sum(is_sum(names[item]) for item in present) <= 1  # the others are gone


def test_an_item_that_goes_takes_the_sum_with_it_and_the_rest_forms_anew():
    play, values = formed()
    play.remove("s", "h3")
    for row in values[:60]:
        play.tick({"s": readings(row[:3])})
    play.check("q", truth(play), 1, unsettled=range(29, 36))
    assert play.phases() == [Phase.FORMED]
    assert play.pipeline.summary()["queries"]["q"]["items"] == 3
    assert play.pipeline.summary()["items"] == 3


def test_a_new_item_stands_beside_the_sum():
    play, _values = formed()
    more = walks(6, 5, 60) / 10
    for row in more:
        play.tick({"s": readings(row)})
    play.check("q", truth(play), 1, unsettled=range(30, 34))
    assert play.phases() == [Phase.FORMED]
    assert play.pipeline.summary()["queries"]["q"]["items"] == 5


def test_a_restarted_source_says_hello_with_the_sums_that_stand():
    play, values = formed()
    play.start("s", epoch=2)
    assert play.pipeline.sources["s"].sums() == {}
    for row in values[:20]:
        play.tick({"s": readings(row)})
    assert len(play.pipeline.sources["s"].sums()) == 1
    play.check("q", truth(play), 1, unsettled=range(29, 34))
    assert play.phases() == [Phase.FORMED]


def test_a_source_that_comes_back_without_its_sums_is_believed_item_by_item():
    play, values = formed()
    play.formed = False
    play.start("s", epoch=2)
    for row in values[:40]:
        play.tick({"s": readings(row)})
    assert Phase.FORMED not in play.phases()
    play.check("q", truth(play), 1, unsettled=range(29, 40))
    assert play.pipeline.summary()["items"] == 4


def test_an_item_that_changes_hands_ends_the_sum():
    play, values = formed()
    play.start("t")
    for row in values[:40]:
        all_of = readings(row)
        play.tick({"t": {"h3": all_of["h3"]}, "s": {host: all_of[host] for host in HOSTS[:3]}})
    # Its former source is still there, so it is disputed for a lease.
    play.check("q", truth(play), 1, unsettled=range(29, 53))
    sets = list(play.groups)
    assert [len(part.items) for one in sets for part in one.parts] == [3]


def test_queries_may_be_altered_and_dropped():
    other = "CREATE QUERY other AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h1') WITHIN 2"
    play, values = formed("adaptive", AVERAGE, other)
    for tick, row in enumerate(values[:150]):
        if tick == 10:
            play.pipeline.send(parse("ALTER QUERY q WITHIN 3"))
        if tick == 60:
            play.pipeline.send(parse("DROP QUERY other"))
        play.tick({"s": readings(row)})
    play.check("q", truth(play), 3)
    assert play.phases() == [Phase.FORMED]
    assert [len(group.parts) for group in play.groups] == [1]


def test_two_sources_form_sums_of_their_own_in_one_query():
    play = Play(AVERAGE, form=QUERIES)
    play.start("s")
    play.start("t")
    for row in walks(7, 6, 80) / 10:
        play.tick({"s": readings(row[:3]), "t": dict(zip(HOSTS[3:6], row[3:].tolist(), strict=True))})
    assert play.phases() == [Phase.FORMED, Phase.FORMED]
    play.check("q", truth(play), 1)


def test_what_is_no_sum_of_several_is_left_alone():
    statements = [
        "CREATE QUERY low AS SELECT MIN(rate) FROM traffic WITHIN 1",
        "CREATE QUERY n AS SELECT COUNT(rate) FROM traffic WITHIN 0",
        "CREATE QUERY one AS SELECT SUM(rate) FROM traffic WHERE host = 'h1' WITHIN 1",
        "CREATE QUERY each AS SELECT host, AVG(rate) FROM traffic GROUP BY host WITHIN 1",
    ]
    play = Play(*statements, form=QUERIES)
    play.start("s")
    for row in walks(8, 4, 30):
        play.tick({"s": readings(row)})
    assert play.phases() == []
    assert list(play.pipeline.log.read("sums.traffic")) == []


@pytest.mark.parametrize("policy", ["uniform", "exact"])
def test_policies_that_never_move_widths_form_no_sums(policy):
    play = run(Play(AVERAGE, policy=policy, form=QUERIES), walks(9, 4, 30))
    assert play.phases() == []


# -- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_shard_restored_at_any_moment_goes_on_as_if_nothing_had_been(policy):
    def story(restored: bool) -> list[tuple[str, list[dict]]]:
        play = Play(AVERAGE, policy=policy, form=QUERIES)
        play.start("s")
        for tick, row in enumerate(walks(10, 4, 120) / 10):
            play.form = (QUERIES, ITEMS)[tick // 30 % 2]
            play.tick({"s": readings(row)})
            if restored:
                play.restore()
        topics = ("answers.q", "grants.traffic", "sums.traffic")
        return [(entry.topic, unpack(entry.payload).to_pylist()) for entry in play.pipeline.log.read(topics)]

    assert story(restored=True) == story(restored=False)


def test_a_new_epoch_says_forms_again_under_it():
    play, values = formed()
    before = play.pipeline.log.latest("sums.traffic", "0/s")
    play.pipeline.clock(play.pipeline.now, epoch=7)
    for row in values[:10]:
        play.tick({"s": readings(row)})
    after = play.pipeline.log.latest("sums.traffic", "0/s")
    assert after.version > before.version
    assert after.version >> 40 == 7
    assert play.phases() == [Phase.FORMED]


def test_what_is_said_of_items_does_not_speak_of_sums():
    play, values = formed()
    run(play, values[:20])
    record = play.pipeline.log.latest("status.traffic", "items/0")
    assert unpack(record.body).column("key").to_pylist() == [key(host) for host in HOSTS[:4]]
    sums = unpack(play.pipeline.log.latest("status.traffic", "sums/0").body).to_pylist()
    assert [(row["query"], row["group"], row["source"], len(row["items"])) for row in sums] == [("q", "", "s", 4)]
    assert {topic for topic in play.pipeline.log.topics() if "\x1f" in topic} == set()


def test_a_new_query_over_the_items_of_a_sum_is_taken_into_it_after_a_while():
    play, values = formed()
    play.pipeline.send(parse("CREATE QUERY other AS SELECT SUM(rate) FROM traffic WHERE host IN ('h0', 'h1') WITHIN 2"))
    for row in values[:300]:
        play.tick({"s": readings(row)})
    assert [len(group.parts) for group in play.groups] == [2]
    assert play.phases() == [Phase.FORMED]
    play.check("q", truth(play), 1)
    play.check("other", [row["h0"] + row["h1"] for row in play.truth], 2, unsettled=range(29, 34))
