-- When a token ends, in seconds since 1970; null: never, or the node that has made it is of an earlier version.
-- The end is in the limits of the role, too, which only nodes read.
ALTER TABLE weir.token ADD COLUMN expires bigint;
UPDATE weir.token SET expires = substring(role FROM '"expires":([0-9]{1,18})')::bigint;
CREATE INDEX token_revoked ON weir.token (revoked) WHERE revoked IS NOT NULL;
