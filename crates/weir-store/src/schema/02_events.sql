-- Events on their way to those who want to know. Times are microseconds since 1970.

-- What wrote this database: part of the source of every event.
CREATE TABLE event_source (id TEXT NOT NULL) STRICT;
INSERT INTO event_source VALUES (lower(hex(randomblob(16))));

-- Events that wait to be posted, in the order in which they were made.
CREATE TABLE delivery (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sink TEXT NOT NULL,
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    made INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sink, path, id)
) STRICT;
CREATE INDEX delivery_due ON delivery (sink, due, number);

-- How far the journal has been read for triggers.
CREATE TABLE trigger_position (lane INTEGER PRIMARY KEY, position INTEGER NOT NULL) STRICT;

-- Counts are told from this minute on (seconds since 1970); what came before is told, or was not
-- asked for.
CREATE TABLE bucket_cursor (one INTEGER PRIMARY KEY CHECK (one = 1), start INTEGER NOT NULL) STRICT;

-- Which revision of a bucket was told last, for as long as there may be another.
CREATE TABLE bucket_told (
    start INTEGER NOT NULL,
    series INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (start, series)
) STRICT, WITHOUT ROWID;

-- Which alerts hold.
CREATE TABLE alert (name TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT;
