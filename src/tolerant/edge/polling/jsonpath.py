"""The subset of JSON path that names one place: `$.quotes[0].price`, `$['last price']`, `$.{symbol}.bid`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_STEP = re.compile(r"\.(?P<name>[^.\[\]'\"]+)|\[(?P<place>-?\d+)\]|\[(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")\]")


class JsonPath:
    """A path to one place in a JSON document. `{column}` in a name stands for an item's key, as in the address.

    >>> JsonPath("$.quotes[0]['last']").number({"quotes": [{"last": "12.5"}]})
    12.5
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.startswith("$"):
            raise ValueError(f"a JSON path begins with $, got {text!r}")
        self._steps: list[str | int] = []
        at = 1
        while at < len(text):
            step = _STEP.match(text, at)
            if step is None:
                raise ValueError(f"JSON path {text!r} cannot be read from character {at + 1} on: {text[at:]!r}")
            if step["place"] is not None:
                self._steps.append(int(step["place"]))
            else:
                self._steps.append(
                    next(part for part in (step["name"], step["single"], step["double"]) if part is not None)
                )
            at = step.end()

    def number(self, document: object, key: Mapping[str, str] | None = None) -> float:
        """Return the finite number at this place; text that reads as one counts too.

        Raises:
            ValueError: there is no such place, or no finite number.
        """
        place = document
        for step in self._steps:
            place = self._descend(place, step, key or {})
        if isinstance(place, bool) or not isinstance(place, int | float | str):
            raise ValueError(f"at {self.text} a number was expected, got {type(place).__name__}")
        try:
            number = float(place)
        except (ValueError, OverflowError):
            raise ValueError(f"at {self.text} a number was expected, got {str(place)[:40]!r}") from None
        if not math.isfinite(number):
            raise ValueError(f"at {self.text} a finite number was expected, got {number}")
        return number

    def _descend(self, place: object, step: str | int, key: Mapping[str, str]) -> object:
        if isinstance(step, int):
            if isinstance(place, list) and -len(place) <= step < len(place):
                return place[step]
            raise ValueError(f"at {self.text} there is no element {step}")
        name = step
        for column, part in key.items():
            name = name.replace("{" + column + "}", part)
        if isinstance(place, dict) and name in place:
            return place[name]
        raise ValueError(f"at {self.text} there is no {name!r}")
