"""Bodies: the hosted reply and the payloads of WSO2's published method."""

import json
import string

#: The reply of TORO's published test: 52 bytes, indented by four spaces.
HELLO = b'{\n    "result": "OK",\n    "message": "Hello World"\n}'

#: Size of OpenEdge's static file: ten records of ten fields.
GRID_BYTES = 4481

_CYCLE = string.digits + string.ascii_uppercase + string.ascii_lowercase


def sized(size: int) -> bytes:
    """Exactly `size` bytes of `{"size":"1024B","payload":["0123456789",…]}`.

    Items are ten characters of the endless cycle 0-9A-Za-z; the last one has between none and
    twelve so that the whole is exact. The smallest possible size is about 30 bytes.
    """
    head = f'{{"size":"{size}B","payload":['
    room = size - len(head) - len("]}")
    if room < 2:
        raise ValueError(f"no payload is as short as {size} bytes")
    whole, rest = divmod(room - 2, 13)
    items, at = [], 0
    for length in [10] * whole + [rest]:
        items.append("".join(_CYCLE[(at + i) % len(_CYCLE)] for i in range(length)))
        at += length
    body = (head + ",".join(f'"{item}"' for item in items) + "]}").encode()
    assert len(body) == size, (len(body), size)
    return body


def record(size: int) -> bytes:
    """Exactly `size` bytes: an object of twenty members of every type, as `record.openapi.yaml`
    describes it. The last member fills up."""
    members = {f"text{i}": _CYCLE[i:i + 24] for i in range(8)}
    members |= {f"count{i}": 1000 + i for i in range(4)}
    members |= {"price": 19.95, "share": 0.25, "open": True, "paid": False}
    members |= {"state": "sent", "placed": "2026-01-01T12:00:00Z",
                "items": [{"sku": f"A-{i}", "quantity": i + 1} for i in range(6)], "note": ""}
    room = size - len(json.dumps(members, separators=(",", ":")))
    if room < 0:
        raise ValueError(f"no record is as short as {size} bytes")
    members["note"] = "." * room
    return json.dumps(members, separators=(",", ":")).encode()


def grid() -> bytes:
    """OpenEdge's static file, of the shape and size that was published: exactly 4,481 bytes."""
    records = [{f"field{f}": f"value of field {f} in record {r}".ljust(32, ".")
                for f in range(1, 11)} for r in range(1, 11)]
    whole = json.dumps({"records": records}, separators=(",", ":"))
    records[-1]["field10"] += "." * (GRID_BYTES - len(whole))
    return json.dumps({"records": records}, separators=(",", ":")).encode()
