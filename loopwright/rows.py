"""Rows of named columns: the result of a verb, shown as a DataFrame, a table, JSON or CSV."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from loopwright.errors import naming_missing_extra

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
Q = TypeVar("Q")


@dataclass(frozen=True)
class Rows:
    """Rows of plain values in the order of columns; None is a missing value.

    types are the dtypes of columns in a DataFrame that do not follow from the values.
    """

    columns: tuple[str, ...]
    values: list[tuple[Any, ...]]
    types: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_frame(cls, frame: "pd.DataFrame") -> Self:
        """Return the rows of a DataFrame."""
        plain = frame.astype(object).where(frame.notna(), None)
        return cls(tuple(map(str, frame.columns)), list(plain.itertuples(index=False, name=None)))

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Return the rows of records that all have the same keys."""
        listed = list(records)
        columns = tuple(listed[0]) if listed else ()
        return cls(columns, [tuple(row[c] for c in columns) for row in listed])

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dict."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.values]

    def column(self, name: str) -> list[Any]:
        """Return the values of one column."""
        index = self.columns.index(name)
        return [row[index] for row in self.values]

    def only(self, columns: Iterable[str]) -> Self:
        """Return the rows with these columns alone, in this order."""
        indices = [self.columns.index(c) for c in columns]
        return type(self)(
            tuple(self.columns[n] for n in indices),
            [tuple(row[n] for n in indices) for row in self.values],
        )

    def frame(self) -> "pd.DataFrame":
        """Return the rows as a DataFrame; InputError without pandas."""
        with naming_missing_extra():
            import pandas as pd

        return pd.DataFrame(self.values, columns=list(self.columns)).astype(dict(self.types))


def as_frame(
    name: str, question: Callable[P, Q], answer: Callable[[Q], Rows]
) -> "Callable[P, pd.DataFrame]":
    """Return a function of a question's fields that gives the rows of its answer as a DataFrame.

    It has the docstring of answer, so that the arguments are documented once.
    """

    @wraps(answer)
    def verb(*args: P.args, **kwargs: P.kwargs) -> "pd.DataFrame":
        return answer(question(*args, **kwargs)).frame()

    verb.__name__ = verb.__qualname__ = name
    verb.__dict__["__signature__"] = signature(question).replace(return_annotation="pd.DataFrame")
    return verb


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, "1 loop" or "1,234 loops"; plural is an irregular one."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def statements(value: str) -> list[str]:
    """Split a value at semicolons outside of parentheses."""
    parts = [""]
    for part in value.split("; "):
        inside = parts[-1].count("(") > parts[-1].count(")")
        if parts[-1] and not inside:
            parts.append(part)
        else:
            parts[-1] = f"{parts[-1]}; {part}" if parts[-1] else part
    return parts
