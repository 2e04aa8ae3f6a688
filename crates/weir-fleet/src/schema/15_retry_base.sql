-- What a retry is based on: the start of the attempt that it retries, in microseconds since 1970. A newer
-- attempt keeps the transaction from being sent. `accepted`: resolutions before it do not.
ALTER TABLE weir.job_item ADD COLUMN base bigint;
ALTER TABLE weir.job_item ADD COLUMN accepted boolean NOT NULL DEFAULT false;
