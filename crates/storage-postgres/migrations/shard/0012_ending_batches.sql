-- Chunks are held by a lock that others can break, and not by their rows.
--
-- A server process that waits for the data of a COPY has no timeout of any kind, so a worker that stands
-- still there would keep the row of its chunk from those who take over or cancel for as long as it likes.

-- Lets this transaction write the rows of a chunk, if the claim is in force. Nobody else can write them
-- until it ends: two that did would wait for each other's serials. Whoever else is at it has lost the
-- claim to us, and may never say another word, so its session is ended. `the_lock` is the ID of the
-- chunk's first code; the locks of pools are negative or below 2^31, which such an ID never is.
CREATE FUNCTION hold_chunk(
    the_batch bigint, the_number bigint, the_token bigint, the_lock bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(the_lock) THEN
        PERFORM FROM chunks
        WHERE batch_id = the_batch AND number = the_number AND token = the_token
          AND state = 'running';
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        PERFORM pg_terminate_backend(pid) FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND (classid::bigint << 32 | objid::bigint) = the_lock;
        PERFORM pg_advisory_xact_lock(the_lock);
    END IF;
    -- Behind the lock, so that what the last one has done is seen.
    PERFORM FROM chunks
    WHERE batch_id = the_batch AND number = the_number AND token = the_token AND state = 'running';
    RETURN FOUND;
END $$;

-- Notes that the codes of a chunk are written, in the transaction that has written them. False if the
-- claim is not in force any more: then they must not stay.
CREATE FUNCTION finish_chunk(
    the_batch bigint, the_number bigint, the_token bigint, at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    finished record;
BEGIN
    UPDATE chunks SET state = 'done'
    WHERE batch_id = the_batch AND number = the_number AND token = the_token AND state = 'running'
    RETURNING start, stop INTO finished;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_chunk(the_batch, finished.stop - finished.start, 0, 0, NULL, at);
    RETURN true;
END $$;

-- Stops a batch, unless it is over. With a reason the codes of a batch that is cancelled are void, in the same step.
CREATE FUNCTION cancel_batch(the_batch bigint, void_reason text, at timestamptz)
RETURNS SETOF batches LANGUAGE plpgsql AS $$
DECLARE
    batch batches;
BEGIN
    FOR batch IN SELECT * FROM cancel_batch(the_batch, at) LOOP
        IF batch.state = 'cancelled' AND void_reason IS NOT NULL THEN
            UPDATE batches SET recalled_at = coalesce(recalled_at, at),
                recall_reason = coalesce(recall_reason, void_reason)
            WHERE id = the_batch RETURNING * INTO batch;
        END IF;
        RETURN NEXT batch;
    END LOOP;
END $$;
