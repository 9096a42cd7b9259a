-- Steps that take several statements, as functions: one round trip each.
--
-- They rely on READ COMMITTED, where every statement of a function sees what others have committed
-- before it. Rows are locked in this order: counter, type, draws (by type, period and holder),
-- gaps, meta. Whoever adds a step keeps to it, or deadlocks follow.
--
-- They raise MT404 for a type that is not there or retired, and MT409 for one that was changed.

-- What several spans are together, by counter.
CREATE FUNCTION spans_by_counter(
    types bigint[], periods text[], starts bigint[], stops bigint[]
) RETURNS TABLE (type_id bigint, period text, spans int8multirange)
LANGUAGE sql IMMUTABLE AS $$
    SELECT span.type_id, span.period, range_agg(int8range(span.start, span.stop))
    FROM unnest(types, periods, starts, stops) AS span (type_id, period, start, stop)
    GROUP BY span.type_id, span.period
$$;

-- Takes the next serials of a counter. Without a holder they go into a pool table in the same
-- transaction, and are accounted for by being there.
CREATE FUNCTION draw_serials(
    the_type bigint, the_period text, wanted bigint, low bigint, high bigint,
    the_holder text, the_revision bigint,
    OUT first bigint, OUT behind bigint
) LANGUAGE plpgsql AS $$
DECLARE
    known    record;
BEGIN
    SELECT retired, revision, used INTO known FROM id_types WHERE id = the_type;
    IF NOT FOUND OR known.retired THEN
        RAISE EXCEPTION 'there is no such type' USING ERRCODE = 'MT404';
    ELSIF known.revision <> the_revision THEN
        RAISE EXCEPTION 'the type was changed' USING ERRCODE = 'MT409';
    END IF;

    SELECT next INTO first FROM counters
    WHERE type_id = the_type AND period = the_period FOR UPDATE;
    IF NOT FOUND THEN
        IF low >= high THEN
            first := low;
            behind := low;
            RETURN;
        END IF;
        -- Somebody else may be starting the counter just now.
        INSERT INTO counters (type_id, period, next) VALUES (the_type, the_period, low)
        ON CONFLICT DO NOTHING;
        SELECT next INTO first FROM counters
        WHERE type_id = the_type AND period = the_period FOR UPDATE;
    END IF;
    behind := first + greatest(least(wanted, high - first), 0);
    IF behind = first THEN
        RETURN;
    END IF;

    -- From here on the type stays as it is until the draw is committed: who changes it waits.
    IF known.used THEN
        PERFORM FROM id_types
        WHERE id = the_type AND NOT retired AND revision = the_revision FOR SHARE;
    ELSE
        UPDATE id_types SET used = true
        WHERE id = the_type AND NOT retired AND revision = the_revision;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the type was changed' USING ERRCODE = 'MT409';
    END IF;

    UPDATE counters SET next = behind WHERE type_id = the_type AND period = the_period;
    IF the_holder IS NOT NULL THEN
        INSERT INTO draws (type_id, period, holder, open)
        VALUES (the_type, the_period, the_holder, int8multirange(int8range(first, behind)))
        ON CONFLICT (type_id, period, holder) DO UPDATE SET open = draws.open + excluded.open;
    END IF;
    IF NOT known.used THEN
        UPDATE meta SET version = version + 1;
    END IF;
END $$;

-- Gives up the end of what a holder has. True if the counter could be turned back, false if the
-- serials are a gap now, nothing if the holder does not have them.
CREATE FUNCTION give_back_serials(
    the_type bigint, the_period text, the_start bigint, the_stop bigint,
    the_holder text, detected timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    stands_at bigint;
BEGIN
    SELECT next INTO stands_at FROM counters
    WHERE type_id = the_type AND period = the_period FOR UPDATE;
    UPDATE draws SET open = open - int8multirange(int8range(the_start, the_stop))
    WHERE type_id = the_type AND period = the_period AND holder = the_holder
      AND open @> int8range(the_start, the_stop);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM draws
    WHERE type_id = the_type AND period = the_period AND holder = the_holder AND isempty(open);
    IF stands_at = the_stop THEN
        UPDATE counters SET next = the_start WHERE type_id = the_type AND period = the_period;
        RETURN true;
    END IF;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    VALUES (the_type, the_period, the_start, the_stop, 'pool_discarded', detected, the_holder);
    RETURN false;
END $$;

-- Moves what one holder has of some spans to another one.
CREATE FUNCTION hand_over_serials(
    types bigint[], periods text[], starts bigint[], stops bigint[], giver text, taker text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT draws.type_id, draws.period, draws.open * wanted.spans AS moved
        FROM draws JOIN spans_by_counter(types, periods, starts, stops) AS wanted
            USING (type_id, period)
        WHERE draws.holder = giver AND draws.open && wanted.spans
        ORDER BY draws.type_id, draws.period FOR UPDATE OF draws
    LOOP
        UPDATE draws SET open = open - held.moved
        WHERE type_id = held.type_id AND period = held.period AND holder = giver;
        DELETE FROM draws
        WHERE type_id = held.type_id AND period = held.period AND holder = giver
          AND isempty(open);
        INSERT INTO draws (type_id, period, holder, open)
        VALUES (held.type_id, held.period, taker, held.moved)
        ON CONFLICT (type_id, period, holder) DO UPDATE SET open = draws.open + excluded.open;
    END LOOP;
END $$;

-- Makes gaps of what a holder has of some spans.
CREATE FUNCTION close_draws(
    the_holder text, types bigint[], periods text[], starts bigint[], stops bigint[],
    why text, detected timestamptz
) RETURNS SETOF gaps LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT draws.type_id, draws.period, draws.open * wanted.spans AS lost
        FROM draws JOIN spans_by_counter(types, periods, starts, stops) AS wanted
            USING (type_id, period)
        WHERE draws.holder = the_holder AND draws.open && wanted.spans
        ORDER BY draws.type_id, draws.period FOR UPDATE OF draws
    LOOP
        UPDATE draws SET open = open - held.lost
        WHERE type_id = held.type_id AND period = held.period AND holder = the_holder;
        DELETE FROM draws
        WHERE type_id = held.type_id AND period = held.period AND holder = the_holder
          AND isempty(open);
        RETURN QUERY
            INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
            SELECT held.type_id, held.period, lower(span), upper(span), why, detected, the_holder
            FROM unnest(held.lost) AS span
            RETURNING gaps.*;
    END LOOP;
END $$;

-- Makes gaps of all that a holder has.
CREATE FUNCTION close_holder(the_holder text, why text, detected timestamptz)
RETURNS SETOF gaps LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM draws WHERE holder = the_holder ORDER BY type_id, period FOR UPDATE;
    RETURN QUERY
        WITH lost AS (
            DELETE FROM draws WHERE holder = the_holder RETURNING type_id, period, open
        )
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
        SELECT lost.type_id, lost.period, lower(span), upper(span), why, detected, the_holder
        FROM lost CROSS JOIN unnest(lost.open) AS span
        ORDER BY lost.type_id, lost.period, span
        RETURNING gaps.*;
END $$;

-- Takes spans off the draws that hold them, whoever has these. Serials that nobody holds are fine,
-- too. They come from snowflakes, or from a group that is written a second time.
CREATE FUNCTION take_off_draws(types bigint[], periods text[], starts bigint[], stops bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM draws JOIN spans_by_counter(types, periods, starts, stops) AS spent
        USING (type_id, period)
    WHERE draws.open && spent.spans
    ORDER BY draws.type_id, draws.period, draws.holder FOR UPDATE OF draws;
    IF FOUND THEN
        UPDATE draws SET open = draws.open - spent.spans
        FROM spans_by_counter(types, periods, starts, stops) AS spent
        WHERE draws.type_id = spent.type_id AND draws.period = spent.period
          AND draws.open && spent.spans;
        DELETE FROM draws
        USING spans_by_counter(types, periods, starts, stops) AS spent
        WHERE draws.type_id = spent.type_id AND draws.period = spent.period
          AND isempty(draws.open);
    END IF;
END $$;

-- Takes spans off gaps: an instance that was taken for gone and was not has issued them after all.
-- What is left of a gap keeps its number, and has further ones where it is in several parts: the
-- numbers are places in a list that somebody may be reading.
CREATE FUNCTION take_off_gaps(types bigint[], periods text[], starts bigint[], stops bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hit record;
BEGIN
    FOR hit IN
        SELECT gaps.*,
               int8multirange(int8range(gaps.start, gaps.stop)) - issued.spans AS rest
        FROM gaps JOIN spans_by_counter(types, periods, starts, stops) AS issued
            ON gaps.type_id = issued.type_id AND gaps.period = issued.period
           AND gaps.stop > lower(issued.spans)
           AND int8range(gaps.start, gaps.stop) && issued.spans
        ORDER BY gaps.type_id, gaps.period, gaps.stop FOR UPDATE OF gaps
    LOOP
        IF isempty(hit.rest) THEN
            DELETE FROM gaps WHERE id = hit.id;
            CONTINUE;
        END IF;
        UPDATE gaps SET start = lower(part), stop = upper(part)
        FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place)
        WHERE id = hit.id AND place = 1;
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
        SELECT hit.type_id, hit.period, lower(part), upper(part), hit.reason, hit.detected_at,
               hit.instance
        FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place) WHERE place > 1
        ORDER BY place;
    END LOOP;
END $$;

-- Writes groups of issues to the log. A group that is there already was written by an attempt whose
-- answer got lost. If it has grown since, the longer one holds what the shorter one held.
CREATE FUNCTION write_log(
    types bigint[], periods text[], widths smallint[], starts bigint[], stops bigint[],
    packed bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- A draw has marked its type already; snowflakes come without one.
    PERFORM FROM id_types WHERE id = ANY (types) AND NOT used ORDER BY id FOR NO KEY UPDATE;
    IF FOUND THEN
        UPDATE id_types SET used = true WHERE id = ANY (types) AND NOT used;
        UPDATE meta SET version = version + 1;
    END IF;
    INSERT INTO issue_log (type_id, period, width_log2, start, stop, entries)
    SELECT * FROM unnest(types, periods, widths, starts, stops, packed)
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (type_id, period, width_log2, start)
        DO UPDATE SET stop = excluded.stop, entries = excluded.entries
        WHERE excluded.stop > issue_log.stop;
END $$;

-- Changes a type and makes it active. Says what came of it, and the new revision.
CREATE FUNCTION change_type(
    the_type bigint, known_revision bigint, its_tenant text, its_name text, its_spec text,
    its_key bytea, only_if_unused boolean,
    OUT outcome text, OUT new_revision bigint
) LANGUAGE plpgsql AS $$
DECLARE
    known record;
BEGIN
    SELECT used, revision INTO known FROM id_types WHERE id = the_type FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
    ELSIF known.revision <> known_revision THEN
        outcome := 'stale';
    ELSIF known.used AND only_if_unused THEN
        outcome := 'used';
    ELSE
        UPDATE id_types
        SET tenant = its_tenant, name = its_name, spec = its_spec, sealed_key = its_key,
            retired = false, revision = revision + 1
        WHERE id = the_type RETURNING revision INTO new_revision;
        UPDATE meta SET version = version + 1;
        outcome := 'done';
    END IF;
EXCEPTION WHEN unique_violation THEN
    outcome := 'taken';
END $$;

-- Deletes a type that was never used, retires any other. Says what came of it.
CREATE FUNCTION remove_type(the_type bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    known record;
BEGIN
    SELECT used INTO known FROM id_types WHERE id = the_type FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    END IF;
    UPDATE meta SET version = version + 1;
    IF known.used THEN
        UPDATE id_types SET retired = true, revision = revision + 1 WHERE id = the_type;
        RETURN 'retired';
    END IF;
    DELETE FROM id_types WHERE id = the_type;
    RETURN 'deleted';
END $$;
