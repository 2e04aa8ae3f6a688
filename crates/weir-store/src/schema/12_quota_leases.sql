-- Calls of calendar quotas that this node was granted by the fleet, by window (seconds since 1970).
CREATE TABLE quota_leased (
    plan TEXT NOT NULL,
    consumer TEXT NOT NULL,
    start INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    PRIMARY KEY (plan, consumer, start)
) STRICT, WITHOUT ROWID;
