-- What batches were like when they came to a state, the time that nobody worked on them, and quotas that
-- are given back with what is abandoned.

-- When somebody has last ended work on a batch.
ALTER TABLE batches ADD COLUMN worked_at timestamptz;

-- How far a batch was when it came to a state. Whoever is told of it late is told of what it was then.
ALTER TABLE events ADD COLUMN made bigint;
ALTER TABLE events ADD COLUMN abandoned bigint;
ALTER TABLE events ADD COLUMN dead_chunks bigint;
ALTER TABLE events ADD COLUMN error text;
ALTER TABLE events ADD COLUMN finished_at timestamptz;

UPDATE events SET made = batches.made, abandoned = batches.abandoned,
    dead_chunks = batches.dead_chunks, error = batches.error, finished_at = batches.finished_at
FROM batches WHERE batches.id = batch_id;

-- For whoever writes an event: the batch has come to its state before.
CREATE FUNCTION picture_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT made, abandoned, dead_chunks, error, finished_at
    INTO NEW.made, NEW.abandoned, NEW.dead_chunks, NEW.error, NEW.finished_at
    FROM batches WHERE id = NEW.batch_id;
    RETURN NEW;
END $$;

CREATE TRIGGER picture_batch BEFORE INSERT ON events
FOR EACH ROW EXECUTE FUNCTION picture_batch();

-- Notes in a batch what became of one of its chunks, as before. When something can be made again of one
-- that had only dead letters left, its work goes on from there.
CREATE OR REPLACE FUNCTION note_chunk(
    the_batch bigint, more_made bigint, more_abandoned bigint, more_dead bigint, why text,
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before    record;
    noted     record;
    unmade    bigint;
    only_dead boolean;
    goes_on   boolean;
BEGIN
    SELECT state, stop - start - made - abandoned AS unmade, dead_chunks, chunk_serials, idle_since
    INTO before FROM batches WHERE id = the_batch FOR NO KEY UPDATE;
    unmade := before.unmade - more_made - more_abandoned;
    only_dead := unmade > 0
        AND unmade <= (before.dead_chunks + more_dead) * before.chunk_serials;
    goes_on := before.idle_since IS NOT NULL AND NOT only_dead;
    UPDATE batches SET made = made + more_made, abandoned = abandoned + more_abandoned,
        dead_chunks = dead_chunks + more_dead, error = coalesce(why, error),
        state = CASE
            WHEN unmade = 0 THEN 'completed'
            WHEN dead_chunks + more_dead > 0 THEN 'needs_attention'
            ELSE 'running' END,
        finished_at = CASE WHEN unmade = 0 THEN at END,
        idle_since = CASE WHEN only_dead THEN coalesce(idle_since, at) END,
        idle_ms = idle_ms + CASE
            WHEN goes_on THEN greatest(0, extract(epoch FROM at - idle_since) * 1000)::bigint
            ELSE 0 END,
        worked_at = CASE WHEN goes_on THEN at ELSE worked_at END
    WHERE id = the_batch
    RETURNING tenant, state INTO noted;
    IF noted.state = 'completed' THEN
        UPDATE batch_tenants SET under_way = under_way - 1 WHERE tenant = noted.tenant;
    END IF;
    IF noted.state <> before.state AND noted.state IN ('completed', 'needs_attention') THEN
        INSERT INTO events (batch_id, state, at) VALUES (the_batch, noted.state, at);
    END IF;
END $$;

-- Notes that the codes of a chunk are written, as before. Between the end of the work before and the claim
-- on this chunk nobody has made anything that came to an end: that is no part of the time that the batch
-- took.
CREATE OR REPLACE FUNCTION finish_chunk(
    the_batch bigint, the_number bigint, the_token bigint, at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    finished record;
BEGIN
    UPDATE chunks SET state = 'done'
    WHERE batch_id = the_batch AND number = the_number AND token = the_token AND state = 'running'
    RETURNING start, stop, due_at AS claimed_at INTO finished;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE batches SET worked_at = at,
        idle_ms = idle_ms + greatest(0, extract(epoch FROM
            finished.claimed_at - coalesce(worked_at, started_at, finished.claimed_at)) * 1000)::bigint
    WHERE id = the_batch;
    PERFORM note_chunk(the_batch, finished.stop - finished.start, 0, 0, NULL, at);
    RETURN true;
END $$;

-- Decides about a dead letter, as before. What is given up does not count as ordered any more.
CREATE OR REPLACE FUNCTION settle_chunk(
    the_batch bigint, the_number bigint, gives_up boolean, at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    settled record;
BEGIN
    UPDATE chunks SET state = CASE WHEN gives_up THEN 'abandoned' ELSE 'queued' END,
        attempts = 0, due_at = '-infinity', died_at = NULL
    WHERE batch_id = the_batch AND number = the_number AND state = 'dead'
    RETURNING start, stop, tenant INTO settled;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF gives_up THEN
        PERFORM note_chunk(the_batch, 0, settled.stop - settled.start, -1, NULL, at);
        UPDATE batch_tenants SET codes = codes - (settled.stop - settled.start)
        WHERE tenant = settled.tenant;
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
        SELECT type_id, '', settled.start, settled.stop, 'abandoned', at, ''
        FROM batches WHERE id = the_batch;
    ELSE
        PERFORM note_chunk(the_batch, 0, 0, -1, NULL, at);
    END IF;
    RETURN true;
END $$;

-- Decides about dead letters, and counts those that were some. All of them are locked first: whoever
-- cancels wants the chunks and then the batch, as this does.
CREATE FUNCTION settle_chunks(
    the_batches bigint[], the_numbers bigint[], gives_up boolean, at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    settled bigint;
BEGIN
    PERFORM FROM chunks
    JOIN unnest(the_batches, the_numbers) AS wanted (batch_id, number) USING (batch_id, number)
    WHERE chunks.state = 'dead' ORDER BY chunks.batch_id, chunks.number FOR UPDATE OF chunks;
    SELECT count(*) INTO settled FROM (
        SELECT settle_chunk(batch_id, number, gives_up, at) AS was_dead
        FROM unnest(the_batches, the_numbers) AS wanted (batch_id, number)
    ) AS each WHERE was_dead;
    RETURN settled;
END $$;

-- Stops a batch, unless it is over, as before. What was abandoned has been taken off already.
CREATE OR REPLACE FUNCTION cancel_batch(the_batch bigint, at timestamptz)
RETURNS SETOF batches LANGUAGE plpgsql AS $$
DECLARE
    batch    batches;
    not_made int8multirange;
BEGIN
    PERFORM FROM chunks
    WHERE batch_id = the_batch AND state IN ('queued', 'running', 'dead')
    ORDER BY number FOR UPDATE;
    SELECT * INTO batch FROM batches WHERE id = the_batch FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    ELSIF batch.state IN ('completed', 'cancelled') THEN
        RETURN NEXT batch;
        RETURN;
    END IF;
    WITH stopped AS (
        UPDATE chunks SET state = 'cancelled', died_at = NULL
        WHERE batch_id = the_batch AND state IN ('queued', 'running', 'dead')
        RETURNING start, stop
    )
    SELECT range_agg(int8range(start, stop)) INTO not_made FROM stopped;
    UPDATE batches SET state = 'cancelled', dead_chunks = 0, finished_at = at
    WHERE id = the_batch RETURNING * INTO batch;
    UPDATE batch_tenants SET under_way = under_way - 1,
        codes = codes - (batch.stop - batch.start - batch.made - batch.abandoned)
    WHERE tenant = batch.tenant;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT batch.type_id, '', lower(span), upper(span), 'batch_cancelled', at, ''
    FROM unnest(not_made) AS span;
    INSERT INTO events (batch_id, state, at) VALUES (the_batch, 'cancelled', at);
    RETURN NEXT batch;
END $$;
