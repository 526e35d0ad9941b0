-- Version 5 of state.db: what each attempt of a job found its destination to mean, and the tag of its temporary files there.

ALTER TABLE attempts ADD COLUMN goes_into INTEGER;
ALTER TABLE attempts ADD COLUMN tag INTEGER;
