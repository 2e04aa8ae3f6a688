"""The harness behind `make perf`: which cases, against whom, measured how, reported where.

In the order of a run: `cli` reads the arguments; `cases` says what is compared and what the bars
are; `credentials` and `payload` make keys, tokens and bodies; `servers` starts the contenders
through `processes`; `cell` runs rounds of `load` and reads `host` around them; `cold` and
`footprint` are the cases that are no rounds of load, as are those of recording and resubmission;
`rows` turns measurements into verdicts; `report` writes them down.
"""
