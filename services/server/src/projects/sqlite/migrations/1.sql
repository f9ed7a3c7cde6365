-- A row is larger than a page, so the ids have an index of their own instead of the whole rows
-- being kept by id (sqlite.org/withoutrowid.html). Ids begin with the time (UUIDv7): both trees
-- grow at their end. Times are microseconds since 1970.
CREATE TABLE projects (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    version INTEGER NOT NULL CHECK (version > 0),
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
