-- What a retry is based on: the start of the attempt that it retries, in microseconds since 1970. A newer
-- attempt keeps the transaction from being sent. `accepted`: resolutions before it do not.
ALTER TABLE job_item ADD COLUMN base INTEGER;
ALTER TABLE job_item ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
