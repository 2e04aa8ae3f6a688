-- Counts of calls. Times are in seconds since 1970.

-- What a bucket is of. What has no name is ''; what there was no room for is '(other)'.
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL,
    api TEXT NOT NULL,
    operation TEXT NOT NULL,
    plan TEXT NOT NULL,
    status INTEGER NOT NULL, -- 1 to 5 for 1xx to 5xx, 0 if there was no answer
    UNIQUE (consumer, api, operation, plan, status)
) STRICT;

-- Calls of a minute (step 60), an hour (3600) or a day (86400), in UTC.
CREATE TABLE bucket (
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    series INTEGER NOT NULL REFERENCES series (id),
    calls INTEGER NOT NULL,
    request_bytes INTEGER NOT NULL,
    response_bytes INTEGER NOT NULL,
    amount TEXT, -- units of 10^-18 of the plan's currency; NULL is nothing
    latency BLOB NOT NULL, -- a sketch of durations in microseconds
    revision INTEGER NOT NULL, -- how often it was written
    PRIMARY KEY (step, start, series)
) STRICT, WITHOUT ROWID;

-- Calls that have used up quotas, by when they came.
CREATE TABLE quota_used (
    plan TEXT NOT NULL,
    consumer TEXT NOT NULL,
    at INTEGER NOT NULL,
    width INTEGER NOT NULL, -- seconds from `at` on that were put together
    calls INTEGER NOT NULL,
    PRIMARY KEY (plan, consumer, at)
) STRICT, WITHOUT ROWID;

-- How far the journal has been counted.
CREATE TABLE counted (
    lane INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    ticket INTEGER NOT NULL
) STRICT;

-- The last minute of what was counted of a segment: what is newer than all that was dropped can be
-- counted again.
CREATE TABLE counted_segment (
    lane INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (lane, segment)
) STRICT, WITHOUT ROWID;

-- Buckets that are being counted again, until they take the place of the others.
CREATE TABLE rebuilt (
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    series INTEGER NOT NULL REFERENCES series (id),
    calls INTEGER NOT NULL,
    request_bytes INTEGER NOT NULL,
    response_bytes INTEGER NOT NULL,
    amount TEXT,
    latency BLOB NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (step, start, series)
) STRICT, WITHOUT ROWID;
