"""JSON and dataclasses from outside: what is read, and what is rejected by name."""

import dataclasses

import pytest

from s2d_tf import files


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int
    rate: float = 0.5


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    items: tuple[Inner, ...] = ()
    other: Inner | None = None
    spread: float | tuple = 0.0
    flag: bool = False


def read(**values):
    return files.read_record(Outer, {"name": "x", "inner": {"size": 1}} | values, "outer")


def test_what_is_read():
    assert read() == Outer("x", Inner(1))
    assert read(items=[{"size": 1, "rate": 2}]).items == (Inner(1, 2.0),)
    assert read(other=None).other is None
    assert read(other={"size": 3}).other == Inner(3)
    assert read(spread=[1, 2]).spread == (1, 2)
    assert isinstance(read(spread=1).spread, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"color": 1}, "outer: .*unknown .*color"),
        ({"inner": {}}, "outer, inner: .*missing .*size"),
        ({"inner": None}, "outer, inner: expected names and values, received None"),
        ({"inner": [1]}, "outer, inner: expected names and values"),
        ({"inner": {"size": "1"}}, "outer, inner, size: expected int, received '1'"),
        ({"inner": {"size": True}}, "outer, inner, size: expected int, received True"),
        ({"inner": {"size": 1.0}}, "outer, inner, size: expected int, received 1.0"),
        ({"items": {"size": 1}}, "outer, items: expected a list"),
        ({"items": "ab"}, "outer, items: expected a list"),
        ({"items": [{"size": "1"}]}, "outer, items, item, size: expected int"),
        ({"name": None}, "outer, name: expected str, received None"),
        ({"flag": 1}, "outer, flag: expected bool, received 1"),
        ({"name": ["x" * 10_000]}, "outer, name: expected str"),
    ],
)
def test_what_is_rejected(values, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(**values)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 1}', "[NaN]", "[-Infinity]", "[1e999]", b"\xff", "[" * 10**5, "", "{"]
)
def test_json_that_is_rejected(text):
    with pytest.raises((ValueError, RecursionError)):
        files.parse_json(text)


def test_json_that_is_read():
    assert files.parse_json(b'{"a": [1, -2.5e3, null, true, "\xc3\xa4"]}') == {
        "a": [1, -2500.0, None, True, "ä"]
    }
