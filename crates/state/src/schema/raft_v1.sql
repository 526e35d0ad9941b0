-- Version 1 of raft.db.

CREATE TABLE entries (log_index INTEGER PRIMARY KEY, body TEXT NOT NULL);

-- `vote`, `committed` and `purged`, each as JSON text.
CREATE TABLE marks (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
