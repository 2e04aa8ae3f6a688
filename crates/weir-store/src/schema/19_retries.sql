-- Jobs that retry transactions of another one: its number, and the states of these transactions,
-- separated by commas.
ALTER TABLE job ADD COLUMN retry_of INTEGER;
ALTER TABLE job ADD COLUMN retry_states TEXT NOT NULL DEFAULT '';
CREATE INDEX job_retry ON job (retry_of, number) WHERE retry_of IS NOT NULL;
