"""Random selects over both tables of `test_view_pipeline`, most of which a catalogue accepts as views."""

from __future__ import annotations

import random

_TYPES = ["DECIMAL(10, 2)", "DECIMAL(38, 18)", "DOUBLE", "FLOAT", "BIGINT", "INT", "SMALLINT", "BOOLEAN", "STRING"]
_NUMBERS = ["0", "1", "1.5", "0.1", "-3", "1e300", "NULL", "9223372036854775807", "TRUE"]
_TEXTS = ["'p'", "''", "'1.5'", "'nan'", "NULL"]


class RandomViews:
    """Selects, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._inputs: list[tuple[str, str]] = []  # (alias, table)

    def select(self) -> str:
        """The next one."""
        chance = self._random
        tables = ["supply", "demand", *chance.choices(["supply", "demand"], k=chance.choice([0, 0, 0, 1, 3]))]
        self._inputs = [(f"t{place}", table) for place, table in enumerate(tables)]
        keys = [self._value() for _ in range(chance.choice([0, 1, 1, 2]))]
        shown = [key for key in keys if chance.random() < 0.5]
        shape = chance.choice(["groups", "groups", "groups", "rows", "distinct"])
        if shape == "groups":
            shown += [self._aggregate() for _ in range(chance.choice([1, 2, 3]))]
        else:
            keys, shown = [], shown or [self._value()]
        columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(shown))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {'DISTINCT ' * (shape == 'distinct')}{columns} FROM {self._joined()}{self._where()}{group}"

    def _joined(self) -> str:
        (alias, table), *others = self._inputs
        text = f"{table} {alias}"
        for place, (other, joined) in enumerate(others):
            before = self._inputs[self._random.randrange(place + 1)][0]
            column = self._random.choice(["id", "product", "product"])
            links = [f" ON {before}.{column} = {other}.{column}"] * 6
            links += [f" ON {before}.id < {other}.id", "", f" ON {before}.id * 0 = {other}.id * 0.0"]
            link = self._random.choice(links)
            text += f" {'CROSS ' * (not link)}JOIN {joined} {other}{link}"
        return text

    def _where(self) -> str:
        if self._random.random() < 0.6:
            return ""
        return f" WHERE {self._value()} {self._random.choice(['<', '=', '<>', '>='])} {self._value()}"

    def _aggregate(self) -> str:
        function = self._random.choice(["COUNT", "SUM", "AVG", "MIN", "MAX"])
        return "COUNT(*)" if self._random.random() < 0.2 else f"{function}({self._value()})"

    def _value(self, depth: int = 2) -> str:
        return self._text(depth) if self._random.random() < 0.25 else self._number(depth)

    def _number(self, depth: int) -> str:
        chance = self._random
        if depth == 0 or chance.random() < 0.3:
            return chance.choice([self._column("id", "a", "price", "c"), chance.choice(_NUMBERS)])
        one, other = self._number(depth - 1), self._number(depth - 1)
        return chance.choice(
            [
                f"({one} {chance.choice('+-*/%')} {other})",
                f"CAST({self._value(depth - 1)} AS {chance.choice(_TYPES)})",
                f"{chance.choice(['ABS', 'SQRT', 'LN', 'EXP', 'FLOOR', 'CEIL', 'SIGN'])}({one})",
                f"ROUND({one}, {chance.choice([-1, 0, 2])})",
                f"POW({one}, {other})",
                f"{chance.choice(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({one}, {other})",
                f"CASE WHEN {one} > {other} THEN {one} ELSE {other} END",
                f"LENGTH({self._text(depth - 1)})",
            ]
        )

    def _text(self, depth: int) -> str:
        chance = self._random
        if depth == 0 or chance.random() < 0.4:
            return chance.choice([self._column("product"), chance.choice(_TEXTS)])
        inner = self._text(depth - 1)
        return chance.choice(
            [
                f"({inner} || {self._text(depth - 1)})",
                f"UPPER({inner})",
                f"SUBSTRING({inner}, {self._number(0)}, 2)",
                f"CAST({self._number(depth - 1)} AS STRING)",
            ]
        )

    def _column(self, *names: str) -> str:
        alias, table = self._random.choice(self._inputs)
        own = {"supply": ("id", "product", "a", "price"), "demand": ("id", "product", "c")}[table]
        return f"{alias}.{self._random.choice([name for name in names if name in own])}"
