-- URL at which other nodes reach the admin listener of the node; empty if they do not query it.
ALTER TABLE weir.node ADD COLUMN advertise text NOT NULL DEFAULT '';
