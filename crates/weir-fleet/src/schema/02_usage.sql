-- What is counted. The id is a hash of the names, so that all nodes have the same.
CREATE TABLE weir.series (
    id uuid PRIMARY KEY,
    consumer text NOT NULL,
    api text NOT NULL,
    operation text NOT NULL,
    plan text NOT NULL,
    status smallint NOT NULL -- 1 to 5 for 1xx to 5xx, 0 if there was no response
);

-- Calls of a minute (step 60), an hour (3600) or a day (86400), in UTC, that a node has counted. A row is
-- written by its node; a higher revision replaces a lower one. Partitions have a step and a month.
CREATE TABLE weir.bucket (
    step integer NOT NULL,
    start timestamptz NOT NULL,
    node uuid NOT NULL,
    series uuid NOT NULL,
    revision bigint NOT NULL,
    calls bigint NOT NULL,
    request_bytes bigint NOT NULL,
    response_bytes bigint NOT NULL,
    amount numeric NOT NULL, -- units of 10^-18 of the plan's currency
    latency bytea NOT NULL,  -- a sketch of durations in microseconds
    PRIMARY KEY (step, start, node, series)
) PARTITION BY RANGE (step, start);

-- Prices as nodes have loaded them: which one was in force when.
CREATE TABLE weir.price (
    node uuid NOT NULL,
    plan text NOT NULL,
    since timestamptz NOT NULL,
    rule text NOT NULL, -- JSON; null: the plan had none
    PRIMARY KEY (node, plan, since)
);

-- What a node could not record or count, by the minute.
CREATE TABLE weir.gap (
    node uuid NOT NULL,
    minute timestamptz NOT NULL,
    unrecorded bigint NOT NULL,
    shortened bigint NOT NULL,
    uncounted bigint NOT NULL,
    PRIMARY KEY (node, minute)
);

-- Work that one node does for all. The epoch counts the changes of the owner: a fencing token.
CREATE TABLE weir.task (
    name text PRIMARY KEY,
    owner uuid NOT NULL,
    until timestamptz NOT NULL,
    epoch bigint NOT NULL
);

-- All calls that the node has received before `counted_until` are in its buckets.
ALTER TABLE weir.node ADD COLUMN counted_until timestamptz NOT NULL DEFAULT 'epoch';
-- Counts before this time may be dropped.
ALTER TABLE weir.fleet ADD COLUMN dropped timestamptz NOT NULL DEFAULT 'epoch';
