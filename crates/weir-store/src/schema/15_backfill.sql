-- What the last backfill has found of a gap; null before the first one.
ALTER TABLE ship_gap ADD COLUMN recovered INTEGER; -- records that the sink has now
ALTER TABLE ship_gap ADD COLUMN gone INTEGER;      -- that the journal does not have; null: unknown
ALTER TABLE ship_gap ADD COLUMN filled_at INTEGER; -- microseconds since 1970
