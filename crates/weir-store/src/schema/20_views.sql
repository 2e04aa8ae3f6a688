-- Named views of the console, for all users.
CREATE TABLE view (
    name TEXT PRIMARY KEY,
    search TEXT NOT NULL, -- the query of the address
    who TEXT NOT NULL,
    at INTEGER NOT NULL   -- microseconds since 1970
) STRICT, WITHOUT ROWID;
