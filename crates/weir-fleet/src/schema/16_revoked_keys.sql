-- API keys of consumers that were revoked, and those that were restored afterwards: the last change of each, by
-- any node.
CREATE TABLE weir.revoked_key (
    hash text PRIMARY KEY,    -- SHA-256 of the key, hexadecimal
    revoked boolean NOT NULL, -- false: it was restored
    consumer text NOT NULL,
    who text NOT NULL,
    reason text NOT NULL,
    at bigint NOT NULL        -- microseconds since 1970
);
-- Incremented by each change of revoked keys.
ALTER TABLE weir.fleet ADD COLUMN revoked_keys bigint NOT NULL DEFAULT 0;
