-- Resubmission: attempts, what became of transactions, jobs. Ids are UUIDs of 16 bytes, times
-- microseconds since 1970, states and reasons their names.

CREATE TABLE attempt (
    id BLOB PRIMARY KEY,          -- the transaction it is in the journal
    original BLOB NOT NULL,       -- the transaction that is sent again
    number INTEGER NOT NULL,      -- in the chain of its original, from 1
    job INTEGER,                  -- if one made it
    who TEXT NOT NULL,
    state TEXT NOT NULL,
    status INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    destination TEXT NOT NULL DEFAULT '',
    difference TEXT NOT NULL DEFAULT '',
    began INTEGER NOT NULL,
    ended INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempt_chain ON attempt (original, number);
CREATE INDEX attempt_open ON attempt (state) WHERE state IN ('sending', 'unknown');
CREATE INDEX attempt_age ON attempt (began);

CREATE TABLE resolution (
    id BLOB PRIMARY KEY,
    state TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE resolution_change (
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL,
    who TEXT NOT NULL,
    comment TEXT NOT NULL
) STRICT;
CREATE INDEX resolution_history ON resolution_change (id, at);
CREATE INDEX resolution_age ON resolution_change (at);

CREATE TABLE job (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    query TEXT NOT NULL,
    destination TEXT NOT NULL,
    again INTEGER NOT NULL,       -- also what succeeded, is settled, or perhaps was sent
    rate REAL NOT NULL,           -- a second
    who TEXT NOT NULL,
    state TEXT NOT NULL,
    run INTEGER NOT NULL,         -- run it once it is previewed
    cursor TEXT NOT NULL,         -- where the preview goes on
    incomplete INTEGER NOT NULL,  -- transactions may be missing from it
    created INTEGER NOT NULL,
    began INTEGER,
    ended INTEGER
) STRICT;

CREATE INDEX job_active ON job (number) WHERE state IN ('previewing', 'running');

CREATE TABLE job_item (
    job INTEGER NOT NULL REFERENCES job (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,       -- newest first, as queries find them
    id BLOB NOT NULL,
    lane INTEGER NOT NULL,        -- where the journal has it
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (job, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_item_id ON job_item (job, id);
CREATE INDEX job_item_state ON job_item (job, state, reason, place);
