-- All calls received before `settled` have been counted, and whatever was counted before `dropped` may
-- be gone; seconds since 1970.
CREATE TABLE counted_until (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    settled INTEGER NOT NULL,
    dropped INTEGER NOT NULL
) STRICT;
INSERT INTO counted_until VALUES (1, 0, 0);
