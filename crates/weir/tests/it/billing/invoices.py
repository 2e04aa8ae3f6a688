"""Computes invoices again, from exported metadata alone.

Usage: invoices.py EXPORT RULES FROM TO

EXPORT is what `weir search --export` printed, RULES a JSON object with `plans` (as they are
configured) and `consumers` (the plan of each), FROM and TO are times (RFC 3339). It shares nothing
with weir but the documented rules: every call costs `per_call`, `per_kib` / 1024 for each byte of
both bodies, and what the expression gives, rounded to 8 decimals; tiers go by the calls of a
consumer with a plan; only what is to be paid is rounded, a half upwards.
"""

import datetime
import decimal
import json
import sys
from decimal import Decimal

decimal.getcontext().prec = 60

# Digits of the minor unit.
ISO_4217 = {"EUR": 2, "JPY": 0, "USD": 2}


def by_expression(call):
    """The one expression that the test uses, written again."""
    double = 0.1 * 3.0 + float(call["response"]["length"]) * 0.0001
    double += float(call["took_us"] // 1000) * 0.00003
    price = 0.0 if call["status"] >= 500 else double
    exact = Decimal(repr(price)).quantize(Decimal("1e-18"), decimal.ROUND_DOWN)
    return exact.quantize(Decimal("1e-8"), decimal.ROUND_HALF_UP)


def of_call(rule, call):
    size = call["request"]["length"] + call["response"]["length"]
    price = Decimal(rule.get("per_call", "0")) + Decimal(rule.get("per_kib", "0")) * size / 1024
    return price + by_expression(call) if "cel" in rule else price


def of_tiers(rule, calls):
    before = 0
    for tier in rule.get("tiers", []):
        last = min(tier.get("up_to", calls), calls)
        if last > before:
            yield [before + 1, last, (last - before) * Decimal(tier["per_call"])]
            before = last


def text(amount):
    plain = format(amount.normalize(), "f")
    return "0" if Decimal(plain) == 0 else plain


def main(export, rules, begin, end):
    rules = json.loads(rules)
    begin, end = (datetime.datetime.fromisoformat(time) for time in (begin, end))
    lines = {}
    for line in open(export):
        call = json.loads(line)
        plan = rules["consumers"].get(call.get("consumer"))
        if plan is None or not begin <= datetime.datetime.fromisoformat(call["time"]) < end:
            continue
        key = (call["consumer"], plan, call["api"], call["operation"])
        calls, size, amount = lines.get(key, (0, 0, Decimal(0)))
        size += call["request"]["length"] + call["response"]["length"]
        lines[key] = (calls + 1, size, amount + of_call(rules["plans"][plan], call))
    for consumer, plan in sorted(rules["consumers"].items()):
        rule = rules["plans"][plan]
        own = {key[1:]: line for key, line in sorted(lines.items()) if key[0] == consumer}
        tiers = list(of_tiers(rule, sum(line[0] for line in own.values())))
        exact = sum((line[2] for line in own.values()), Decimal(0))
        exact += sum((tier[2] for tier in tiers), Decimal(0))
        decimals = rule.get("decimals", ISO_4217[rule["currency"]])
        due = exact.quantize(Decimal(1).scaleb(-decimals), decimal.ROUND_HALF_UP)
        print(json.dumps({
            "consumer": consumer,
            "lines": [[*key, line[0], line[1], text(line[2])] for key, line in own.items()],
            "tiers": [[first, last, text(amount)] for first, last, amount in tiers],
            "exact": text(exact),
            "due": format(due, "f"),
        }))


main(*sys.argv[1:])
