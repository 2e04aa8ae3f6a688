-- What waits for each sink, so that nothing has to be counted, and what was given up.
CREATE TABLE delivery_sink (
    sink TEXT PRIMARY KEY,
    waiting INTEGER NOT NULL DEFAULT 0,
    overtaken INTEGER NOT NULL DEFAULT 0, -- given up because there was no room for newer ones
    expired INTEGER NOT NULL DEFAULT 0    -- given up because of their age
) STRICT, WITHOUT ROWID;
INSERT INTO delivery_sink (sink, waiting) SELECT sink, count(*) FROM delivery GROUP BY sink;

-- The oldest events of a sink.
CREATE INDEX delivery_age ON delivery (sink, made, number);

CREATE TRIGGER delivery_comes AFTER INSERT ON delivery BEGIN
    INSERT INTO delivery_sink (sink, waiting) VALUES (new.sink, 1)
    ON CONFLICT DO UPDATE SET waiting = waiting + 1;
END;
CREATE TRIGGER delivery_goes AFTER DELETE ON delivery BEGIN
    UPDATE delivery_sink SET waiting = waiting - 1 WHERE sink = old.sink;
END;
