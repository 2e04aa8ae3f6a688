-- Status of the problem with which weir itself rejected or failed calls that are not billed; their amount is
-- what they would have cost. 0: all other calls, and those that earlier versions have counted.
ALTER TABLE weir.series ADD COLUMN unbilled smallint NOT NULL DEFAULT 0;
