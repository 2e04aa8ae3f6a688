-- API keys of consumers that were revoked, and those that were restored afterwards: the last change of each.
CREATE TABLE revoked_key (
    hash TEXT PRIMARY KEY,   -- SHA-256 of the key, 64 lower-case hexadecimal digits
    revoked INTEGER NOT NULL, -- 0: it was restored
    consumer TEXT NOT NULL,  -- of the configuration then
    who TEXT NOT NULL,       -- name of the token
    reason TEXT NOT NULL,
    at INTEGER NOT NULL      -- microseconds since 1970
) STRICT, WITHOUT ROWID;
