-- Version 7 of state.db: which site runs the transfer of a job.

ALTER TABLE attempts ADD COLUMN route TEXT;
