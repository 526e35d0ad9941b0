-- Version 8 of state.db: bytes that an attempt sent more than once. They decide nothing, so they have no checksum.

CREATE TABLE sent_again (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;
