-- Calls of a quota that nodes may admit, by consumer and window; of a rolling quota by sub-window.
CREATE TABLE weir.quota (
    plan text NOT NULL,
    consumer text NOT NULL,
    rolling text NOT NULL,         -- length of a rolling quota; '' for a calendar quota
    start timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    most bigint NOT NULL,          -- calls of the quota
    granted bigint NOT NULL,       -- of these, granted to nodes
    last_grant bigint NOT NULL,    -- what the last statement has granted
    PRIMARY KEY (plan, consumer, rolling, start)
);
CREATE INDEX quota_ends ON weir.quota (ends);

-- What each node was granted, and what it has used when it asked last.
CREATE TABLE weir.quota_lease (
    node uuid NOT NULL,
    plan text NOT NULL,
    consumer text NOT NULL,
    rolling text NOT NULL,
    start timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    leased bigint NOT NULL,
    used bigint NOT NULL,
    boot bigint NOT NULL,
    PRIMARY KEY (node, plan, consumer, rolling, start)
);
CREATE INDEX quota_lease_ends ON weir.quota_lease (ends);
