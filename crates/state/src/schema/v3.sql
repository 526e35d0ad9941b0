-- Version 3 of state.db: the work of divided jobs.

CREATE TABLE work (
    job TEXT PRIMARY KEY NOT NULL,
    -- Index of the command that opened it: items of an earlier work of the same job are told apart by it.
    id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    claim TEXT NOT NULL,
    roots TEXT NOT NULL,
    part_bytes INTEGER NOT NULL,
    pairs TEXT NOT NULL,
    trouble TEXT,
    closed TEXT NOT NULL,
    open INTEGER NOT NULL,
    closes INTEGER NOT NULL,
    next_number INTEGER NOT NULL,
    counts TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE work_items (
    work INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- 0 assemble, 1 part, 2 scan, 3 close.
    kind INTEGER NOT NULL,
    -- 0 ready, 1 leased, 2 waits for others, 3 settled and still needed.
    state INTEGER NOT NULL,
    root INTEGER NOT NULL,
    path BLOB NOT NULL,
    -- Share or offset, and number of shares.
    piece INTEGER NOT NULL,
    pieces INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- Item that found it, or the assemble of a part; 0 is none.
    parent INTEGER NOT NULL,
    -- Parts of an assemble that are not settled, and that failed.
    waits INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    lease INTEGER,
    node TEXT,
    instance TEXT,
    digest TEXT,
    PRIMARY KEY (work, number)
) WITHOUT ROWID;

CREATE UNIQUE INDEX work_items_identity ON work_items (work, kind, root, path, piece, pieces, generation);
CREATE INDEX work_items_ready ON work_items (work, kind, bytes DESC, number) WHERE state = 0;
CREATE INDEX work_items_parent ON work_items (work, parent, state);
CREATE INDEX work_items_leased ON work_items (node, work, number) WHERE state = 1;
