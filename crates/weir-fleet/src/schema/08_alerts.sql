-- Alerts on the usage of all nodes, as far as they are evaluated. The node that has the task `alerts`
-- writes the rows.
CREATE TABLE weir.alert (
    name text PRIMARY KEY,
    evaluated timestamptz NOT NULL, -- the minutes before are evaluated
    firing boolean NOT NULL,        -- at that time
    settled timestamptz NOT NULL,   -- the same, when all nodes had reported: later reports change nothing
    settled_firing boolean NOT NULL,
    reported bigint NOT NULL        -- sum of the times up to which nodes had reported: it tells later reports
);

-- Events of alerts, one for each time in which an alert fires.
CREATE TABLE weir.alert_event (
    alert text NOT NULL,
    minute timestamptz NOT NULL,    -- end of the first minute in which it fired
    data text NOT NULL,             -- of the event, JSON
    delivered boolean NOT NULL DEFAULT false,
    PRIMARY KEY (alert, minute)
);
CREATE INDEX alert_event_minute ON weir.alert_event (minute);

-- Calls that a node had recorded and not replicated when it wrote the row last, its highest number of calls
-- per second in the last minute, and when that was. Of a lost node: the most calls that are missing.
ALTER TABLE weir.node ADD COLUMN pending bigint NOT NULL DEFAULT 0;
ALTER TABLE weir.node ADD COLUMN rate double precision NOT NULL DEFAULT 0;
ALTER TABLE weir.node ADD COLUMN missing bigint;
