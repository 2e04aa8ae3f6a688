-- Status of the problem with which weir itself rejected or failed calls that are not billed; their amount is
-- what they would have cost. 0: all other calls. The names have to be unique together with it, so the table is
-- made anew.
CREATE TABLE series_unbilled (
    id INTEGER PRIMARY KEY,
    consumer TEXT NOT NULL,
    api TEXT NOT NULL,
    operation TEXT NOT NULL,
    plan TEXT NOT NULL,
    status INTEGER NOT NULL, -- 1 to 5 for 1xx to 5xx, 0 if there was no response
    unbilled INTEGER NOT NULL DEFAULT 0,
    UNIQUE (consumer, api, operation, plan, status, unbilled)
) STRICT;
INSERT INTO series_unbilled (id, consumer, api, operation, plan, status)
    SELECT id, consumer, api, operation, plan, status FROM series;
DROP TABLE series;
ALTER TABLE series_unbilled RENAME TO series;
