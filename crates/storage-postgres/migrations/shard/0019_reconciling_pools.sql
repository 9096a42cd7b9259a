-- Types with a pool table are reconciled, too.
--
-- Their documents, reservations and batches take serials of the same counter, and one that got lost there
-- was never found. The table has IDs and no serials, so what went into it is noted as it is drawn.
--
-- An instance of the release before goes on working: it draws with the function that notes it.

-- Whoever fills a table just now comes first: nobody has noted what it draws.
SELECT FROM counters WHERE type_id IN (SELECT type_id FROM pool_tables)
ORDER BY type_id, period FOR UPDATE;

-- Serials that were drawn for the table, whatever became of them: in it, rejected by a filter, or there
-- already. Only those that nobody has compared with the counter yet, so there are few ranges.
ALTER TABLE pool_tables ADD COLUMN filled int8multirange NOT NULL DEFAULT '{}';

-- What was drawn before is not looked at.
UPDATE reconciled SET stands_at = counters.next FROM counters
WHERE reconciled.type_id = counters.type_id AND reconciled.period = counters.period
  AND reconciled.type_id IN (SELECT type_id FROM pool_tables);

-- Takes the next serials of a counter, as before. Without a holder they go into the pool table, if the
-- counter has one.
CREATE OR REPLACE FUNCTION draw_serials(
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
        INSERT INTO reconciled (type_id, period, stands_at) VALUES (the_type, the_period, low)
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
    ELSE
        UPDATE pool_tables SET filled = filled + int8multirange(int8range(first, behind))
        WHERE type_id = the_type AND period = the_period;
    END IF;
    IF NOT known.used THEN
        UPDATE meta SET version = version + 1;
    END IF;
END $$;

-- Looks at the next so many serials of one of a type's counters, as before, and counts as explained what
-- went into a pool table.
CREATE OR REPLACE FUNCTION reconcile_slice(
    the_type bigint, most bigint, at timestamptz,
    OUT looked_at bigint, OUT is_done boolean, OUT new_gaps bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    rows_max constant bigint := 100000;
    step     record;
BEGIN
    looked_at := 0;
    is_done := true;
    new_gaps := '{}';
    IF NOT pg_try_advisory_xact_lock(1296979016, hashint8(the_type)) THEN
        RETURN;
    END IF;
    WITH ahead AS MATERIALIZED (
        SELECT counters.period, reconciled.stands_at AS low,
               reconciled.stands_at + least(counters.next - reconciled.stands_at, most) AS high
        FROM counters JOIN reconciled USING (type_id, period)
        WHERE counters.type_id = the_type AND counters.next > reconciled.stands_at
        ORDER BY counters.period LIMIT 1
    ), slice AS MATERIALIZED (
        SELECT ahead.period, ahead.low, least(
            ahead.high,
            (SELECT min(log.start) FROM generate_series(0, 62) AS class (width_log2)
             CROSS JOIN LATERAL (
                 SELECT start FROM issue_log
                 WHERE type_id = the_type AND period = ahead.period
                   AND width_log2 = class.width_log2::smallint
                   AND start >= ahead.low AND start < ahead.high
                 ORDER BY start OFFSET rows_max LIMIT 1) AS log),
            (SELECT start FROM gaps
             WHERE type_id = the_type AND period = ahead.period AND closed_at IS NULL
               AND stop > ahead.low
             ORDER BY stop OFFSET rows_max LIMIT 1),
            (SELECT start FROM batches
             WHERE type_id = the_type AND ahead.period = '' AND start >= ahead.low
             ORDER BY start OFFSET rows_max LIMIT 1),
            (SELECT serial FROM reservations
             WHERE type_id = the_type AND period = ahead.period AND serial >= ahead.low
             ORDER BY serial OFFSET rows_max LIMIT 1)) AS high
        FROM ahead
    ), explained (span) AS (
        SELECT held.span FROM slice
        JOIN draws ON draws.type_id = the_type AND draws.period = slice.period
        CROSS JOIN LATERAL unnest(
            draws.open * int8multirange(int8range(slice.low, slice.high))) AS held (span)
        UNION ALL
        SELECT pooled.span FROM slice
        JOIN pool_tables ON pool_tables.type_id = the_type AND pool_tables.period = slice.period
        CROSS JOIN LATERAL unnest(
            pool_tables.filled * int8multirange(int8range(slice.low, slice.high))) AS pooled (span)
        UNION ALL
        -- A group of a class begins within a known distance before whatever it holds.
        SELECT int8range(log.start, log.stop)
        FROM slice CROSS JOIN generate_series(0, 62) AS class (width_log2)
        CROSS JOIN LATERAL (
            SELECT start, stop FROM issue_log
            WHERE type_id = the_type AND period = slice.period
              AND width_log2 = class.width_log2::smallint AND start < slice.high
              AND start >= CASE WHEN class.width_log2 > 61 THEN 0
                                ELSE slice.low - (2::bigint << class.width_log2) END
              AND stop > slice.low
            OFFSET 0) AS log
        UNION ALL
        SELECT int8range(gap.start, gap.stop)
        FROM slice CROSS JOIN LATERAL (
            (SELECT start, stop FROM gaps
             WHERE type_id = the_type AND period = slice.period AND closed_at IS NULL
               AND stop > slice.low AND stop <= slice.high)
            UNION ALL
            (SELECT start, stop FROM gaps
             WHERE type_id = the_type AND period = slice.period AND closed_at IS NULL
               AND stop > slice.high
             ORDER BY stop LIMIT 1)) AS gap
        UNION ALL
        SELECT int8range(batch.start, batch.stop)
        FROM slice CROSS JOIN LATERAL (
            (SELECT start, stop FROM batches
             WHERE type_id = the_type AND start >= slice.low AND start < slice.high)
            UNION ALL
            (SELECT start, stop FROM batches
             WHERE type_id = the_type AND start < slice.low
             ORDER BY start DESC LIMIT 1)) AS batch
        WHERE slice.period = ''
        UNION ALL
        SELECT int8range(held.serial, held.serial + 1)
        FROM slice JOIN reservations AS held
            ON held.type_id = the_type AND held.period = slice.period
           AND held.serial >= slice.low AND held.serial < slice.high
    )
    SELECT slice.period, slice.low, slice.high,
           int8multirange(int8range(slice.low, slice.high))
           - coalesce((SELECT range_agg(span) FROM explained), '{}') AS lost
    INTO step FROM slice;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    WITH added AS (
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
        SELECT the_type, step.period, lower(span), upper(span), 'untracked_loss', at, ''
        FROM unnest(step.lost) AS span
        RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO new_gaps FROM added;
    -- Some may have gone back to the counter meanwhile. Whoever gives some back locks the counter first.
    PERFORM FROM counters WHERE type_id = the_type AND period = step.period FOR UPDATE;
    UPDATE reconciled SET stands_at = least(step.high, counters.next) FROM counters
    WHERE reconciled.type_id = the_type AND reconciled.period = step.period
      AND counters.type_id = the_type AND counters.period = step.period;
    -- Nobody looks at these again: what went back to a counter was never in a table.
    UPDATE pool_tables SET filled = filled - int8multirange(int8range(NULL, reconciled.stands_at))
    FROM reconciled
    WHERE pool_tables.type_id = the_type AND pool_tables.period = step.period
      AND reconciled.type_id = the_type AND reconciled.period = step.period
      AND lower(pool_tables.filled) < reconciled.stands_at;
    looked_at := step.high - step.low;
    PERFORM FROM counters JOIN reconciled USING (type_id, period)
    WHERE counters.type_id = the_type AND counters.next > reconciled.stands_at LIMIT 1;
    is_done := NOT FOUND;
END $$;
