-- Number of the job of the fleet that made an attempt. Its items are in the database of the fleet.
ALTER TABLE attempt ADD COLUMN fleet_job INTEGER;
