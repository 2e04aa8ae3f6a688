"""The metrics, labels and label values that a PromQL expression names. Not a parser: it reads selectors and lists of labels."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<range>\[[^\]]*\])
  | (?P<variable>\$[a-zA-Z_]\w*|\$\{\w+\})
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<number>[0-9.][0-9.eE+-]*)
  | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},])
  | (?P<space>\s+)
    """,
    re.VERBOSE,
)
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
# Followed by a list of labels.
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


@dataclass
class Names:
    """What an expression names; `values` has the matchers `label="value"`."""

    metrics: dict = field(default_factory=dict)
    labels: set = field(default_factory=set)
    values: set = field(default_factory=set)


def tokens(expression):
    position = 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        if match is None:
            raise ValueError(f"cannot read {expression[position:position + 20]!r} in {expression!r}")
        position = match.end()
        if match.lastgroup != "space":
            yield match.lastgroup, match.group()


def read(expression):
    """The names in an expression. Metrics map to the labels of their selectors."""
    names, all_tokens = Names(), [*tokens(expression), ("end", "")]
    index = 0
    while index < len(all_tokens):
        kind, text = all_tokens[index]
        following = all_tokens[index + 1][1] if kind != "end" else ""
        index += 1
        if kind != "name" or text in WORDS:
            continue
        if text in LISTS:
            if following != "(":
                continue
            while all_tokens[index][1] != ")":
                index += 1
                if all_tokens[index][0] == "name":
                    names.labels.add(all_tokens[index][1])
        elif following != "(" and not is_aggregation(all_tokens, index):
            labels = names.metrics.setdefault(text, set())
            if following == "{":
                index = selector(all_tokens, index, labels, names.values)
    return names


def is_aggregation(all_tokens, index):
    """Whether `sum by (…)` goes on here."""
    return all_tokens[index][1] in ("by", "without")


def selector(all_tokens, index, labels, values):
    """Reads `{label="value", …}` and returns the index after it."""
    while all_tokens[index][1] != "}":
        index += 1
        kind, text = all_tokens[index]
        if kind == "name":
            labels.add(text)
            operator, value = all_tokens[index + 1][1], all_tokens[index + 2][1][1:-1]
            if operator == "=" and "$" not in value:
                values.add((text, value))
            elif operator == "=~" and re.fullmatch(r"[a-z-]+(\|[a-z-]+)*", value):
                values.update((text, one) for one in value.split("|"))
            index += 2
    return index + 1
