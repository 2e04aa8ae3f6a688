-- Configurations that were in force, newest last.
CREATE TABLE configuration (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL,     -- SHA-256, 64 hexadecimal digits
    at INTEGER NOT NULL,      -- since when, microseconds since 1970
    trigger_ TEXT NOT NULL,   -- who or what has put it in force
    version INTEGER,          -- of the fleet's configuration; null: own files
    findings TEXT NOT NULL    -- JSON
) STRICT;

-- Their files, once for each digest.
CREATE TABLE configuration_files (
    digest TEXT PRIMARY KEY,
    files TEXT NOT NULL       -- JSON; secrets are redacted
) STRICT, WITHOUT ROWID;
