-- Version 4 of state.db: the nodes of the destination of a divided job.

ALTER TABLE work ADD COLUMN targets TEXT NOT NULL DEFAULT '{}';
-- Pairs named an address each. The controller makes them anew.
UPDATE work SET pairs = '[]';
