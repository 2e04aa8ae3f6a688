-- Prices as they were configured: which one was in force when. Times are seconds since 1970.
CREATE TABLE price (
    plan TEXT NOT NULL,
    since INTEGER NOT NULL,
    rule TEXT NOT NULL, -- JSON; 'null': the plan had none
    PRIMARY KEY (plan, since)
) STRICT, WITHOUT ROWID;
