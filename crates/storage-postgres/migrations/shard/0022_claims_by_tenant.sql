-- Where instances tell each other whose turn it is, a worker asks for chunks of that tenant.

-- Claims a chunk: of a tenant or, where none is named, of the one that was served least recently. One
-- that is on record as running with this very worker is one whose claim never reached it: it comes
-- first, whosever it is and as the same attempt, unless somebody is busy with it just now. A chunk that
-- was silent too often becomes a dead letter instead, and ends the step with outcome `buried`: the
-- caller asks again. So no claim locks the rows of two batches.
CREATE FUNCTION claim_chunk(
    the_instance text, the_number bigint, only_tenant text, at timestamptz, silent_since timestamptz,
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
        SELECT tenant FROM batch_tenants
        WHERE under_way > 0 AND tenant = coalesce(only_tenant, tenant)
        ORDER BY served, tenant
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

-- As the release before calls it, for all tenants.
CREATE OR REPLACE FUNCTION claim_chunk(
    the_instance text, the_number bigint, at timestamptz, silent_since timestamptz,
    attempts_max integer,
    OUT outcome text, OUT claimed chunks, OUT its_type bigint, OUT its_position bigint
) LANGUAGE sql AS $$
    SELECT claim.outcome, claim.claimed, claim.its_type, claim.its_position
    FROM claim_chunk(the_instance, the_number, NULL, at, silent_since, attempts_max) AS claim
$$;
