-- Version 5 of state.db: what each attempt of a job found its destination to mean, with the tag of its temporary files; the level of the cluster.

ALTER TABLE attempts ADD COLUMN goes_into INTEGER;
ALTER TABLE attempts ADD COLUMN tag INTEGER;

-- One row, if any: the feature level that all nodes of the cluster know. Without it, the first.
CREATE TABLE cluster (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    level INTEGER NOT NULL
);
