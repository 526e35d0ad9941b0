-- Version 2 of state.db: the request that submitted a job.

ALTER TABLE jobs ADD COLUMN request TEXT;
