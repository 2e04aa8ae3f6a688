-- What could not be recorded or counted, by the minute (seconds since 1970).
CREATE TABLE gap (
    minute INTEGER PRIMARY KEY,
    unrecorded INTEGER NOT NULL,
    shortened INTEGER NOT NULL,
    uncounted INTEGER NOT NULL
) STRICT;
