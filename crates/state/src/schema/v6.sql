-- Version 6 of state.db: the name of the node that proposed what a line of the audit log tells.

ALTER TABLE audit ADD COLUMN via TEXT;
