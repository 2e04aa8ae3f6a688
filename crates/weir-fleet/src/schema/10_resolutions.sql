-- Resolutions that operators set, on whichever node. Nodes copy rows that have changed; a higher revision
-- replaces a lower one.
ALTER TABLE weir.resolution DROP CONSTRAINT resolution_state_check;
ALTER TABLE weir.resolution ADD CONSTRAINT resolution_state_check
    CHECK (state IN ('open', 'resubmitted', 'resolved', 'dismissed'));
ALTER TABLE weir.resolution ADD COLUMN revision bigint NOT NULL DEFAULT 0; -- 0: never set
ALTER TABLE weir.resolution ADD COLUMN change bigint NOT NULL DEFAULT 0;   -- of `weir.fleet`, when it was set
ALTER TABLE weir.resolution ADD COLUMN node uuid;                          -- through which it was set
ALTER TABLE weir.resolution ADD COLUMN who text NOT NULL DEFAULT '';
ALTER TABLE weir.resolution ADD COLUMN comment text NOT NULL DEFAULT '';
ALTER TABLE weir.resolution ADD COLUMN at bigint NOT NULL DEFAULT 0;       -- microseconds since 1970
CREATE INDEX resolution_change ON weir.resolution (change, id) WHERE change > 0;
-- Incremented by each transaction that sets resolutions: its lock makes the order of the numbers that of
-- the commits.
ALTER TABLE weir.fleet ADD COLUMN resolutions bigint NOT NULL DEFAULT 0;
