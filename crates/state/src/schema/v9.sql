-- Version 9 of state.db: what each job does, so that a list of jobs reads no description. A job without a row copies.
-- Kinds decide nothing, so they have no checksum.

CREATE TABLE job_kinds (
    job TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO job_kinds (job, kind)
    SELECT job, kind FROM (
        SELECT job, CASE WHEN json_valid(spec)
            THEN coalesce(json_extract(spec, '$.kind'), json_extract(spec, '$.new.kind')) END AS kind
        FROM job_specs
    ) WHERE kind IS NOT NULL;
