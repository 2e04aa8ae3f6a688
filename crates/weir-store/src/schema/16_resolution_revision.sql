-- Revision of a resolution in the database of the fleet; 0: it was set on this node only.
ALTER TABLE resolution ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
