import pytest

from tolerant.edge.keys import item_of_name, item_text
from tolerant.streams import Column, Stream

HOSTS = Stream("hosts", (Column("host", "STRING"), Column("load", "DOUBLE")), ("host",))
TRAFFIC = Stream(
    "traffic", (Column("host", "STRING"), Column("port", "INT"), Column("rate", "DOUBLE")), ("host", "port")
)


@pytest.mark.parametrize(
    ("item", "stream", "text"),
    [
        ("web-1", HOSTS, "web-1"),
        (("web-1",), HOSTS, "web-1"),
        ('["a"]', HOSTS, '["a"]'),
        (("web-1", 80), TRAFFIC, '["web-1",80]'),
        ('["web-1", 80]', TRAFFIC, '["web-1",80]'),
    ],
)
def test_an_item_is_its_key_columns_or_its_key_text(item, stream, text):
    assert item_text(item, stream) == text


@pytest.mark.parametrize("item", ["web-1", ("web-1",), ("web-1", "80"), ("web-1", True), ["web-1", 80], 7, '["a",1.5]'])
def test_what_does_not_fit_the_key_is_refused(item):
    with pytest.raises(ValueError, match=r"web-1|a tuple|INT"):
        item_text(item, TRAFFIC)


@pytest.mark.parametrize(
    ("name", "stream", "text"),
    [
        ("web-1/80", TRAFFIC, '["web-1",80]'),
        ('["web-1",80]', TRAFFIC, '["web-1",80]'),
        ("web-1/80", HOSTS, "web-1/80"),
        ("[odd", HOSTS, "[odd"),
    ],
)
def test_a_name_in_a_file_is_a_json_list_or_parts_with_slashes(name, stream, text):
    assert item_of_name(name, stream) == text


@pytest.mark.parametrize(("name", "message"), [("web-1", "has 1 parts, expected 2"), ("web-1/http", "must be INT")])
def test_a_name_that_does_not_fit_says_why(name, message):
    with pytest.raises(ValueError, match=message):
        item_of_name(name, TRAFFIC)
