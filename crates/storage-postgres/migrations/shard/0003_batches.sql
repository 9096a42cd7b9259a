-- Batches, their chunks, and what happens to codes.
--
-- The functions lock rows in this order: chunks (of one batch, by number), their batch, its tenant;
-- then what the functions before lock, in their order; the clock last. No step touches the chunks of
-- two batches. Finishing a chunk holds its row while the codes are copied, and the row of the batch,
-- which all its workers share, only from there to the commit. So whoever stops a batch waits for the
-- copies that are under way with nothing but chunks in hand, and no copy waits for a chunk.

-- Batches. `id` is a snowflake that has the shard in the place of the node. `tenant` is that of the
-- type, which never changes. Rows change with every chunk, so pages have room for the next version.
CREATE TABLE batches (
    id            bigint PRIMARY KEY,
    type_id       bigint NOT NULL,
    tenant        text COLLATE "C" NOT NULL,
    start         bigint NOT NULL,
    stop          bigint NOT NULL,
    chunk_serials bigint NOT NULL,
    ledger        text NOT NULL CHECK (ledger IN ('stored', 'derived')),
    state         text NOT NULL CHECK
        (state IN ('queued', 'running', 'completed', 'needs_attention', 'cancelled')),
    made          bigint NOT NULL DEFAULT 0,
    abandoned     bigint NOT NULL DEFAULT 0,
    dead_chunks   bigint NOT NULL DEFAULT 0,
    error         text,
    name          text,
    metadata      text,
    key_id        bigint NOT NULL,
    order_key     text COLLATE "C" UNIQUE,
    created_at    timestamptz NOT NULL,
    started_at    timestamptz,
    finished_at   timestamptz,
    recalled_at   timestamptz,
    recall_reason text,
    CHECK (start < stop)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX batches_by_type ON batches (type_id, id);
CREATE UNIQUE INDEX batches_by_serial ON batches (type_id, start);

-- Chunks of stored batches. `due_at` is when a queued one may be claimed, and when a running one was.
-- A running one without a worker had one that is gone, and counts as silent for ever. There is no
-- reference to batches: rows of neither are ever deleted, and orders are large.
CREATE TABLE chunks (
    batch_id bigint NOT NULL,
    number   bigint NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    start    bigint NOT NULL,
    stop     bigint NOT NULL,
    state    text NOT NULL DEFAULT 'queued' CHECK
        (state IN ('queued', 'running', 'done', 'dead', 'abandoned', 'cancelled')),
    attempts integer NOT NULL DEFAULT 0,
    token    bigint NOT NULL DEFAULT 0,
    worker   text,
    due_at   timestamptz NOT NULL DEFAULT '-infinity',
    error    text,
    died_at  timestamptz,
    PRIMARY KEY (batch_id, number)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- What is done is in none of these, so looking for work costs the same however much is done.
CREATE INDEX chunks_to_do ON chunks (tenant, batch_id, number) WHERE state IN ('queued', 'running');
CREATE INDEX chunks_by_worker ON chunks (worker) WHERE state = 'running';
CREATE INDEX chunks_dead ON chunks (batch_id, number) WHERE state = 'dead';

-- What a tenant has ordered: batches under way and codes, for its quotas, and when it was served
-- last, for its turn. `served` counts claims on this database.
CREATE TABLE batch_tenants (
    tenant    text COLLATE "C" PRIMARY KEY,
    under_way bigint NOT NULL DEFAULT 0,
    codes     bigint NOT NULL DEFAULT 0,
    served    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE INDEX tenants_by_turn ON batch_tenants (served, tenant) WHERE under_way > 0;

CREATE SEQUENCE servings;

-- The first millisecond of snowflakes that no batch of this database has taken.
CREATE TABLE code_clock (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    next_ms  bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO code_clock (next_ms) VALUES (0);

-- Draws the serials of a batch, all or none, and takes it on record.
CREATE FUNCTION order_batch(
    the_type bigint, the_revision bigint, wanted bigint, low bigint, high bigint,
    chunk_size bigint, its_ledger text, its_name text, its_metadata text, its_key bigint,
    its_order_key text,
    active_max bigint, codes_max bigint, ms bigint, span_ms bigint, at timestamptz,
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
                         metadata, key_id, order_key, created_at, finished_at)
    SELECT (began_ms << 22) | (meta.shard::bigint << 12), the_type, known.tenant, drawn.first,
           drawn.behind, chunk_size, its_ledger,
           CASE WHEN is_stored THEN 'queued' ELSE 'completed' END,
           CASE WHEN is_stored THEN 0 ELSE wanted END,
           its_name, its_metadata, its_key, its_order_key, at, CASE WHEN is_stored THEN NULL ELSE at END
    FROM meta
    RETURNING batches.* INTO batch;
    IF is_stored THEN
        INSERT INTO chunks (batch_id, number, tenant, start, stop)
        SELECT batch.id, place, known.tenant, drawn.first + place * chunk_size,
               drawn.first + place * chunk_size + least(chunk_size, wanted - place * chunk_size)
        FROM generate_series(0, (wanted - 1) / chunk_size) AS place;
    END IF;
    outcome := 'done';
END $$;

-- Notes in a batch what became of one of its chunks.
CREATE FUNCTION note_chunk(
    the_batch bigint, more_made bigint, more_abandoned bigint, more_dead bigint, why text,
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    noted record;
BEGIN
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
END $$;

-- Claims a chunk. A chunk that was silent too often becomes a dead letter instead, and ends the step
-- with outcome `buried`: the caller asks again. So no claim locks the rows of two batches.
CREATE FUNCTION claim_chunk(
    the_worker text, at timestamptz, silent_since timestamptz, attempts_max integer,
    OUT outcome text, OUT claimed chunks, OUT its_type bigint, OUT its_position bigint
) LANGUAGE plpgsql AS $$
DECLARE
    turn record;
    why  text;
BEGIN
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
            worker = the_worker, due_at = at
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

-- Notes that the codes of a chunk are written, in the transaction that has written them and has the
-- chunk locked.
CREATE FUNCTION finish_chunk(the_batch bigint, the_number bigint, at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    finished record;
BEGIN
    UPDATE chunks SET state = 'done' WHERE batch_id = the_batch AND number = the_number
    RETURNING start, stop INTO finished;
    PERFORM note_chunk(the_batch, finished.stop - finished.start, 0, 0, NULL, at);
END $$;

-- Notes that a chunk failed. Without a time to try again it is a dead letter. False if the claim is
-- not in force any more.
CREATE FUNCTION fail_chunk(
    the_batch bigint, the_number bigint, the_token bigint, why text, retry_at timestamptz,
    at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    is_dead boolean := retry_at IS NULL;
BEGIN
    UPDATE chunks SET state = CASE WHEN is_dead THEN 'dead' ELSE 'queued' END,
        due_at = coalesce(retry_at, due_at), error = why,
        died_at = CASE WHEN is_dead THEN at END
    WHERE batch_id = the_batch AND number = the_number AND token = the_token
      AND state = 'running';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_chunk(the_batch, 0, 0, is_dead::integer, why, at);
    RETURN true;
END $$;

-- Ends the claims of workers that are gone, and says how many these were. The next claim finds the
-- chunks silent: it takes them over, or gives up on them if that happened too often. What is being
-- finished just now is left alone.
CREATE FUNCTION release_chunks(workers text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    lost     record;
    released bigint := 0;
BEGIN
    FOR lost IN
        SELECT batch_id, number FROM chunks
        WHERE worker = ANY (workers) AND state = 'running' FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE chunks SET worker = NULL, token = token + 1, due_at = '-infinity'
        WHERE batch_id = lost.batch_id AND number = lost.number;
        released := released + 1;
    END LOOP;
    RETURN released;
END $$;

-- Decides about a dead letter: tries it again, or gives it up. False if it is none.
CREATE FUNCTION settle_chunk(
    the_batch bigint, the_number bigint, gives_up boolean, at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    settled record;
BEGIN
    UPDATE chunks SET state = CASE WHEN gives_up THEN 'abandoned' ELSE 'queued' END,
        attempts = 0, due_at = '-infinity', died_at = NULL
    WHERE batch_id = the_batch AND number = the_number AND state = 'dead'
    RETURNING start, stop INTO settled;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF gives_up THEN
        PERFORM note_chunk(the_batch, 0, settled.stop - settled.start, -1, NULL, at);
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
        SELECT type_id, '', settled.start, settled.stop, 'abandoned', at, ''
        FROM batches WHERE id = the_batch;
    ELSE
        PERFORM note_chunk(the_batch, 0, 0, -1, NULL, at);
    END IF;
    RETURN true;
END $$;

-- Stops a batch, unless it is over. No chunk can become one to do while those that are one, and dead
-- letters, are locked.
CREATE FUNCTION cancel_batch(the_batch bigint, at timestamptz)
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
    RETURN NEXT batch;
END $$;

-- Makes the table for some of a type's codes. False if no batch has such codes, so that nobody can
-- ask for tables that will never hold anything. Rows are written in order of serials, and a code is
-- looked for by its serial alone: there is no other index.
CREATE FUNCTION make_code_table(table_name text, the_type bigint, low bigint, high bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('%I', table_name)) IS NOT NULL THEN
        RETURN true;
    END IF;
    PERFORM FROM batches WHERE type_id = the_type AND start < high AND stop > low LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(1296979015, 6);
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS %I (
            serial           bigint PRIMARY KEY,
            id               bigint NOT NULL,
            scans            bigint NOT NULL DEFAULT 0,
            first_scanned_at timestamptz,
            void_at          timestamptz,
            void_reason      text
        )', table_name);
    RETURN true;
END $$;
