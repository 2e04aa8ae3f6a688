-- Jobs that retry transactions of another one: its number, and the states of these transactions,
-- separated by commas. Such a job has its items when it is created.
ALTER TABLE weir.job ADD COLUMN retry_of bigint;
ALTER TABLE weir.job ADD COLUMN retry_states text NOT NULL DEFAULT '';
CREATE INDEX job_retry ON weir.job (retry_of, number) WHERE retry_of IS NOT NULL;
