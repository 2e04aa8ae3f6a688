-- Events of alerts of the fleet that this node has queued: it tells the fleet once they have left its
-- queue.
CREATE TABLE fleet_event (
    id TEXT PRIMARY KEY,
    sink TEXT NOT NULL,
    path TEXT NOT NULL
) STRICT, WITHOUT ROWID;
