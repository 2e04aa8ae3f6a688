-- The node as which usage is replicated to the fleet, for as long as it is.
CREATE TABLE replica (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    node TEXT NOT NULL,
    live INTEGER NOT NULL -- nodes that served, as last known
) STRICT;

-- Buckets that have changed since they were replicated.
CREATE TABLE bucket_unreplicated (
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    series INTEGER NOT NULL,
    PRIMARY KEY (step, start, series)
) STRICT, WITHOUT ROWID;

-- Buckets as they were when this data folder, a copy, became another node: those calls are the other
-- node's.
CREATE TABLE bucket_inherited (
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    series INTEGER NOT NULL REFERENCES series (id),
    calls INTEGER NOT NULL,
    request_bytes INTEGER NOT NULL,
    response_bytes INTEGER NOT NULL,
    amount TEXT,
    latency BLOB NOT NULL,
    PRIMARY KEY (step, start, series)
) STRICT, WITHOUT ROWID;
