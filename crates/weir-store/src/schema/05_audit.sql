-- Who looked at which payload, and who changed what.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,          -- microseconds since 1970
    token TEXT NOT NULL,          -- id of the token, never the token
    name TEXT NOT NULL,           -- who has it
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    about TEXT NOT NULL,          -- what the subject is: transaction, query, subject, job
    subject TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
CREATE INDEX audit_age ON audit (at);
