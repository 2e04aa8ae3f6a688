-- Transactions that a sink (OpenSearch) has rejected, without their content; newest last.
CREATE TABLE ship_rejected (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    id BLOB NOT NULL,        -- of the transaction, 16 bytes
    lane INTEGER NOT NULL,   -- address in the journal
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,     -- microseconds since 1970
    status INTEGER NOT NULL, -- of the item; 0 without one
    reason TEXT NOT NULL,
    UNIQUE (sink, id)
) STRICT;
CREATE INDEX ship_rejected_age ON ship_rejected (sink, number);

-- Records that were not sent to a sink: the journal had no more room for its backlog.
CREATE TABLE ship_gap (
    sink TEXT NOT NULL,
    lane INTEGER NOT NULL,
    why TEXT NOT NULL,        -- record: not sent; payload: sent without headers and bodies
    from_ INTEGER NOT NULL,   -- positions in the journal
    to_ INTEGER NOT NULL,
    records INTEGER NOT NULL,
    at_most INTEGER NOT NULL, -- 1: the number is an upper bound
    at INTEGER NOT NULL,      -- of the last change, microseconds since 1970
    PRIMARY KEY (sink, lane, why, from_)
) STRICT, WITHOUT ROWID;
