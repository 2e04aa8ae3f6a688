"""A row of the table of bars."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One bar, and whether it is met; all texts but `result`."""

    case: str
    load: str
    weir: str
    reference: str
    ratio: str
    bar: str
    result: str
    beside: str = ""

    def cells(self) -> list[str]:
        return [self.case, self.load, self.weir, self.reference, self.ratio, self.bar,
                self.result, self.beside]


VERDICT_HEAD = ["case", "load", "weir", "reference", "ratio (rounds)", "bar", "verdict",
                "requests/s (or CPU), p99: weir | reference"]
