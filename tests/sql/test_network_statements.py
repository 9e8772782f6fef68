"""`CREATE STREAM … FROM 'network.toml'`: the file is read when the statement is sent, and what is wrong is said."""

import pytest

from tolerant.client import StatementClient, load_catalogue
from tolerant.sql import Catalogue, StatementError, decode, encode, parse, with_network
from tolerant.sql.networks import network_of
from tolerant.transport.memory import MemoryLog

PRICES = "CREATE STREAM prices (item STRING, price DOUBLE) KEY (item) FROM 'network.toml'"
NETWORK = (
    "[aggregators.D1]\nitems = {S1 = 0.5, S3 = 0.2}\n[aggregators.D2]\nparent = 'D1'\nitems = {S1 = 1, S2 = 0.1}\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "network.toml").write_text(NETWORK)
    return tmp_path


def test_the_network_travels_with_the_statement(folder):
    filled = with_network(parse(PRICES), folder)
    assert decode(encode(filled)) == filled
    network = network_of(filled.stream)
    assert (network.aggregators, network.parents["D2"], network.bounds["D1"]["S3"]) == (("D1", "D2"), "D1", 0.2)
    catalogue = Catalogue()
    assert "network is missing" in catalogue.apply(parse(PRICES)).message
    assert catalogue.apply(filled).accepted
    assert parse(PRICES, catalogue) == parse(PRICES)  # the same file of statements, run again
    assert catalogue.apply(filled).message == "unchanged"


def test_another_network_is_a_conflict(folder):
    log = MemoryLog()
    (statement,) = StatementClient(log).missing([parse(PRICES)], folder)
    StatementClient(log).send(statement)
    assert StatementClient(log).missing([parse(PRICES)], folder) == []
    (folder / "network.toml").write_text("# the same, said otherwise\n" + NETWORK.replace("S1 = 1,", "S1 = 1.0,"))
    assert StatementClient(log).missing([parse(PRICES)], folder) == []
    (folder / "network.toml").write_text(NETWORK.replace("0.5", "0.4"))
    with pytest.raises(StatementError, match="with another network"):
        StatementClient(log).missing([parse(PRICES)], folder)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[aggregators.D1]\nitems = 3", "network.toml, aggregator 'D1': `items` must be a table"),
        ("nonsense", "network.toml is not TOML"),
        ("[aggregators.D1]\nitems = {S1 = -1}", "network.toml: within of 'S1' at aggregator 'D1'"),
        ("[aggregators.D1]\nitems = {S1 = 1}\nparent = 'D1'", "circle"),
    ],
)
def test_files_that_cannot_be_used(folder, content, told):
    (folder / "network.toml").write_text(content)
    with pytest.raises(StatementError, match=told):
        StatementClient(MemoryLog()).missing([parse(PRICES)], folder)


def test_no_file_and_items_that_are_no_keys(folder):
    with pytest.raises(StatementError, match=r"there is no file other\.toml"):
        StatementClient(MemoryLog()).missing([parse(PRICES.replace("network", "other"))], folder)
    with pytest.raises(StatementError, match="item 'S1' is no key of prices"):
        StatementClient(MemoryLog()).missing([parse(PRICES.replace("item STRING", "item BIGINT"))], folder)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT SUM(price) FROM prices WITHIN 0.7", "keeps WITHIN 0.7: the copies at the aggregators may be 0.8 off"),
        ("SELECT AVG(price) FROM prices WITHIN 0", "no plan"),
        ("SELECT MAX(price) FROM prices WITHIN 0.4", "0.5 off"),
        ("SELECT COUNT(*) FROM prices WITHIN 1", "nothing to count"),
        ("SELECT SUM(price) FROM prices WHERE item = 'S9' WITHIN 1", "no item of network.toml is in the query"),
        ("SELECT SUM(price) FROM prices WITHIN 1 FIDELITY 0.9", "FIDELITY is for streams that are polled"),
    ],
)
def test_queries_that_no_plan_can_answer(folder, query, told):
    log = MemoryLog()
    for statement in StatementClient(log).missing([parse(PRICES)], folder):
        StatementClient(log).send(statement)
    with pytest.raises(StatementError) as refused:
        parse(f"CREATE QUERY q AS {query}", load_catalogue(log))
    assert told in refused.value.reason


def test_options_that_say_nothing_to_a_network():
    for option in ("policy = 'exact'", "shards = 2", "chooser = 'max'"):
        with pytest.raises(StatementError, match="is for streams that"):
            parse(f"{PRICES} WITH ({option})", Catalogue())
