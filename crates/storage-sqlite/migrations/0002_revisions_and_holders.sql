-- What several instances and shared pools need. This store has one process, but it keeps to the
-- same rules as the others.

-- Grows with every change of a type, so that nobody draws for a specification that is not in force.
ALTER TABLE id_types ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- Serials are with an instance or with a pool that instances share.
ALTER TABLE draws RENAME COLUMN instance TO holder;

-- Who has claimed a request. Claims from before belong to a process that is gone, and no instance
-- has an empty name.
ALTER TABLE answers ADD COLUMN instance TEXT NOT NULL DEFAULT '';
ALTER TABLE answers ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

-- One row for each server that shared pools have lived on; the last one is in force. A server that
-- comes back is a new row, and AUTOINCREMENT sees to it that no number comes back.
CREATE TABLE pool_epochs (
    epoch    INTEGER PRIMARY KEY AUTOINCREMENT,
    server   TEXT NOT NULL,
    began_at INTEGER NOT NULL
) STRICT;

-- Snowflakes draw their time from counters like everything else. The one node needs no row.
DROP TABLE nodes;
