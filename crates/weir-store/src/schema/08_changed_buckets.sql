-- Buckets of minutes that have changed since they were told, for as long as somebody wants to be told.
CREATE TABLE bucket_changed (
    start INTEGER NOT NULL,
    series INTEGER NOT NULL,
    PRIMARY KEY (start, series)
) STRICT, WITHOUT ROWID;
INSERT INTO bucket_changed
    SELECT b.start, b.series FROM bucket b
    LEFT JOIN bucket_told t ON t.start = b.start AND t.series = b.series
    WHERE b.step = 60 AND b.start >= (SELECT start FROM bucket_cursor)
          AND (t.revision IS NULL OR t.revision < b.revision);
DROP TABLE bucket_told;
