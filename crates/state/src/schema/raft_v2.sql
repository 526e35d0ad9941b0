-- Version 2 of raft.db: a checksum of the other columns of each row. An entry of an earlier program has none.

ALTER TABLE entries ADD COLUMN sum INTEGER;
ALTER TABLE marks ADD COLUMN sum INTEGER;
