-- Events of batches, whom to tell of them, and chunks whose claim got lost.
--
-- An instance of the release before goes on working: the functions that it calls are there with the
-- parameters that it knows.

-- `worker` is an instance, and this is which of its workers has the chunk. None is known of a claim
-- that an instance of the release before has made. First, because a worker that writes codes holds its
-- chunk and then wants the batch: whoever has the batch already would wait for it in vain.
ALTER TABLE chunks ADD COLUMN worker_number bigint;

ALTER TABLE batches ADD COLUMN notify text;

-- States that batches have come to and that nobody has made deliveries of yet. A row is written in the
-- step that changes the state, and deleted in the one that writes the deliveries. The table is almost
-- always empty, so what was deleted has to go soon: the oldest is looked for at that end.
CREATE TABLE events (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id bigint NOT NULL,
    state    text NOT NULL CHECK (state IN ('completed', 'needs_attention', 'cancelled')),
    at       timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- Draws the serials of a batch, all or none, and takes it on record. A batch that is complete at once
-- has come to that state here.
CREATE FUNCTION order_batch(
    the_type bigint, the_revision bigint, wanted bigint, low bigint, high bigint,
    chunk_size bigint, its_ledger text, its_name text, its_metadata text, its_key bigint,
    its_order_key text,
    active_max bigint, codes_max bigint, ms bigint, span_ms bigint, at timestamptz,
    its_notify text,
    OUT outcome text, OUT figure bigint, OUT batch batches
) LANGUAGE plpgsql AS $$
DECLARE
    known     record;
    quota     record;
    stands_at bigint;
    drawn     record;
    began_ms  bigint;
    is_stored boolean := its_ledger = 'stored';
    snowflake_ms_max constant bigint := 1::bigint << 41;
BEGIN
    SELECT tenant, retired, revision INTO known FROM id_types WHERE id = the_type;
    IF NOT FOUND OR known.retired THEN
        RAISE EXCEPTION 'there is no such type' USING ERRCODE = 'MT404';
    ELSIF known.revision <> the_revision THEN
        RAISE EXCEPTION 'the type was changed' USING ERRCODE = 'MT409';
    END IF;

    INSERT INTO batch_tenants (tenant) VALUES (known.tenant) ON CONFLICT DO NOTHING;
    SELECT under_way, codes INTO quota FROM batch_tenants
    WHERE tenant = known.tenant FOR NO KEY UPDATE;
    -- Behind the lock, so that two of the same kind do not both find nothing.
    SELECT * INTO batch FROM batches WHERE order_key = its_order_key;
    IF FOUND THEN
        outcome := 'done';
        RETURN;
    END IF;
    IF is_stored AND quota.under_way >= active_max THEN
        outcome := 'too_many_active';
        figure := quota.under_way;
        RETURN;
    ELSIF wanted > codes_max - quota.codes THEN
        outcome := 'over_quota';
        figure := quota.codes;
        RETURN;
    END IF;

    SELECT next INTO stands_at FROM counters
    WHERE type_id = the_type AND period = '' FOR UPDATE;
    stands_at := coalesce(stands_at, low);
    IF wanted > high - stands_at THEN
        outcome := 'no_room';
        figure := greatest(stands_at - low, 0);
        RETURN;
    END IF;
    SELECT first, behind INTO drawn
    FROM draw_serials(the_type, '', wanted, low, high, NULL, the_revision);
    IF drawn.behind - drawn.first < wanted THEN
        -- Somebody else has just started the counter and drawn. The next try sees where it stands.
        RAISE EXCEPTION 'the counter was drawn from' USING ERRCODE = 'serialization_failure';
    END IF;

    UPDATE batch_tenants
    SET codes = codes + wanted, under_way = under_way + is_stored::integer
    WHERE tenant = known.tenant;
    UPDATE code_clock SET next_ms = greatest(next_ms, ms) + span_ms
    RETURNING next_ms - span_ms INTO began_ms;
    IF began_ms + span_ms > snowflake_ms_max THEN
        RAISE EXCEPTION 'the lifetime of snowflakes is over';
    END IF;
    INSERT INTO batches (id, type_id, tenant, start, stop, chunk_serials, ledger, state, made, name,
                         metadata, key_id, order_key, created_at, finished_at, notify)
    SELECT (began_ms << 22) | (meta.shard::bigint << 12), the_type, known.tenant, drawn.first,
           drawn.behind, chunk_size, its_ledger,
           CASE WHEN is_stored THEN 'queued' ELSE 'completed' END,
           CASE WHEN is_stored THEN 0 ELSE wanted END,
           its_name, its_metadata, its_key, its_order_key, at,
           CASE WHEN is_stored THEN NULL ELSE at END, its_notify
    FROM meta
    RETURNING batches.* INTO batch;
    IF is_stored THEN
        INSERT INTO chunks (batch_id, number, tenant, start, stop)
        SELECT batch.id, place, known.tenant, drawn.first + place * chunk_size,
               drawn.first + place * chunk_size + least(chunk_size, wanted - place * chunk_size)
        FROM generate_series(0, (wanted - 1) / chunk_size) AS place;
    ELSE
        INSERT INTO events (batch_id, state, at) VALUES (batch.id, batch.state, at);
    END IF;
    outcome := 'done';
END $$;

-- As the release before calls it.
CREATE OR REPLACE FUNCTION order_batch(
    the_type bigint, the_revision bigint, wanted bigint, low bigint, high bigint,
    chunk_size bigint, its_ledger text, its_name text, its_metadata text, its_key bigint,
    its_order_key text,
    active_max bigint, codes_max bigint, ms bigint, span_ms bigint, at timestamptz,
    OUT outcome text, OUT figure bigint, OUT batch batches
) LANGUAGE sql AS $$
    SELECT ordered.outcome, ordered.figure, ordered.batch
    FROM order_batch(the_type, the_revision, wanted, low, high, chunk_size, its_ledger, its_name,
                     its_metadata, its_key, its_order_key, active_max, codes_max, ms, span_ms, at,
                     NULL) AS ordered
$$;

-- Notes in a batch what became of one of its chunks, and the event if that brings the batch to
-- another state.
CREATE OR REPLACE FUNCTION note_chunk(
    the_batch bigint, more_made bigint, more_abandoned bigint, more_dead bigint, why text,
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state_before text;
    noted        record;
BEGIN
    SELECT state INTO state_before FROM batches WHERE id = the_batch FOR NO KEY UPDATE;
    UPDATE batches SET made = made + more_made, abandoned = abandoned + more_abandoned,
        dead_chunks = dead_chunks + more_dead, error = coalesce(why, error),
        state = CASE
            WHEN made + more_made + abandoned + more_abandoned = stop - start THEN 'completed'
            WHEN dead_chunks + more_dead > 0 THEN 'needs_attention'
            ELSE 'running' END,
        finished_at = CASE
            WHEN made + more_made + abandoned + more_abandoned = stop - start THEN at END
    WHERE id = the_batch
    RETURNING tenant, state INTO noted;
    IF noted.state = 'completed' THEN
        UPDATE batch_tenants SET under_way = under_way - 1 WHERE tenant = noted.tenant;
    END IF;
    IF noted.state <> state_before AND noted.state IN ('completed', 'needs_attention') THEN
        INSERT INTO events (batch_id, state, at) VALUES (the_batch, noted.state, at);
    END IF;
END $$;

-- Claims a chunk. One that is on record as running with this very worker is one whose claim never
-- reached it: it comes first, as the same attempt, unless somebody is busy with it just now. A chunk
-- that was silent too often becomes a dead letter instead, and ends the step with outcome `buried`:
-- the caller asks again. So no claim locks the rows of two batches.
CREATE FUNCTION claim_chunk(
    the_instance text, the_number bigint, at timestamptz, silent_since timestamptz,
    attempts_max integer,
    OUT outcome text, OUT claimed chunks, OUT its_type bigint, OUT its_position bigint
) LANGUAGE plpgsql AS $$
DECLARE
    turn record;
    why  text;
BEGIN
    SELECT chunks.* INTO claimed FROM chunks
    WHERE worker = the_instance AND worker_number = the_number AND state = 'running'
    LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE chunks SET token = token + 1, due_at = at
        WHERE batch_id = claimed.batch_id AND number = claimed.number
        RETURNING chunks.* INTO claimed;
        SELECT type_id, claimed.start - start INTO its_type, its_position FROM batches
        WHERE id = claimed.batch_id;
        outcome := 'claimed';
        RETURN;
    END IF;
    FOR turn IN
        SELECT tenant FROM batch_tenants WHERE under_way > 0 ORDER BY served, tenant
    LOOP
        SELECT chunks.* INTO claimed FROM chunks
        WHERE tenant = turn.tenant AND state IN ('queued', 'running')
          AND due_at <= CASE WHEN state = 'queued' THEN at ELSE silent_since END
        ORDER BY batch_id, number LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE;
        END IF;
        IF claimed.state = 'running' AND claimed.attempts >= attempts_max THEN
            why := CASE WHEN claimed.worker IS NULL THEN 'its worker is gone'
                        ELSE 'its worker was silent for too long' END;
            UPDATE chunks SET state = 'dead', error = why, died_at = at
            WHERE batch_id = claimed.batch_id AND number = claimed.number;
            PERFORM note_chunk(claimed.batch_id, 0, 0, 1, why, at);
            outcome := 'buried';
            RETURN;
        END IF;
        UPDATE chunks SET state = 'running', attempts = attempts + 1, token = token + 1,
            worker = the_instance, worker_number = the_number, due_at = at
        WHERE batch_id = claimed.batch_id AND number = claimed.number
        RETURNING chunks.* INTO claimed;
        UPDATE batches SET state = 'running', started_at = at
        WHERE id = claimed.batch_id AND state = 'queued';
        SELECT type_id, claimed.start - start INTO its_type, its_position FROM batches
        WHERE id = claimed.batch_id;
        UPDATE batch_tenants SET served = nextval('servings') WHERE tenant = turn.tenant;
        outcome := 'claimed';
        RETURN;
    END LOOP;
    outcome := 'nothing';
END $$;

-- As the release before calls it: of its workers nobody knows which is which.
CREATE OR REPLACE FUNCTION claim_chunk(
    the_worker text, at timestamptz, silent_since timestamptz, attempts_max integer,
    OUT outcome text, OUT claimed chunks, OUT its_type bigint, OUT its_position bigint
) LANGUAGE sql AS $$
    SELECT claim.outcome, claim.claimed, claim.its_type, claim.its_position
    FROM claim_chunk(the_worker, NULL, at, silent_since, attempts_max) AS claim
$$;

-- Stops a batch, unless it is over. No chunk can become one to do while those that are one, and dead
-- letters, are locked.
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
        codes = codes - (batch.stop - batch.start - batch.made)
    WHERE tenant = batch.tenant;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT batch.type_id, '', lower(span), upper(span), 'batch_cancelled', at, ''
    FROM unnest(not_made) AS span;
    INSERT INTO events (batch_id, state, at) VALUES (the_batch, 'cancelled', at);
    RETURN NEXT batch;
END $$;
