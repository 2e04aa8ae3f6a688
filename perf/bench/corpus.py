"""Bodies that look like traffic: JSON of 1 KiB with words drawn by Zipf's law, from a fixed seed.

Every body has an id of its own at a fixed place, so that the load generator can make each request
unique without building JSON: `{"id":"000000000042",` is followed by the rest, unchanged.
"""

import itertools
import json
import random
from pathlib import Path

SEED = 20_26
#: Length of every body, of requests and of answers.
SIZE = 1024
#: Different words there are; the n-th is drawn in proportion to 1/n.
WORDS = 50_000
#: Distinct bodies each way; the generator takes them in turn, one step further in each round.
BODIES = 8192

_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def vocabulary() -> list[str]:
    """So many different words, commonest first."""
    chance = random.Random(SEED)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = min(12, 2 + int(chance.expovariate(0.2)))
        found["".join(chance.choices(_LETTERS, range(len(_LETTERS), 0, -1), k=length))] = None
    return list(found)


def bodies(kind: str) -> list[bytes]:
    """`BODIES` bodies of exactly `SIZE` bytes; `request` and `answer` differ in every one."""
    words = vocabulary()
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    chance = random.Random(f"{SEED} {kind}")
    return [_body(chance, words, weights, number) for number in range(BODIES)]


def write(folder: Path) -> tuple[Path, Path]:
    """The requests as a file with one body a line, and a folder with one file an answer."""
    requests = folder / "requests"
    requests.write_bytes(b"\n".join(bodies("request")) + b"\n")
    answers = folder / "answers"
    answers.mkdir()
    for number, body in enumerate(bodies("answer")):
        (answers / str(number)).write_bytes(body)
    return requests, answers


def _body(chance: random.Random, words: list[str], weights: list[float], number: int) -> bytes:
    body = {"id": f"{number:012}", "order": f"A-{chance.randrange(10**6):06}",
            "amount": chance.randrange(1, 10**5) / 100,
            "customer": words[chance.randrange(WORDS)], "text": ""}
    room = SIZE - len(json.dumps(body, separators=(",", ":")))
    text = " ".join(chance.choices(words, cum_weights=weights, k=room // 2))[:room]
    body["text"] = text.ljust(room, ".")
    encoded = json.dumps(body, separators=(",", ":")).encode()
    assert len(encoded) == SIZE, len(encoded)
    return encoded
