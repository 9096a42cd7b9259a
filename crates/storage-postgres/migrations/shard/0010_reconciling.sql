-- Comparing counters with what became of their serials.

-- Looks at the next so many serials of one of a type's counters and makes gaps of those that nothing
-- explains. `new_gaps` are the numbers of these gaps. They are fewer serials if very many rows speak of
-- them, because all of these are in memory at once. One step at a time for a type: another one does
-- nothing and is done. Locks of the form (0x4d4e5448, n) are of this kind; should two types have the
-- same n, one of them merely comes later.
--
-- All that explains serials is read in one statement, and so as of one moment: at any moment a serial
-- below its counter is in one of these places, because every step that moves it is one transaction.
-- Documents are in the log, where many of them are one row, and so are not read one by one.
CREATE FUNCTION reconcile_slice(
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
    -- What is in a pool table explains itself there.
    PERFORM FROM pool_tables WHERE type_id = the_type LIMIT 1;
    IF FOUND THEN
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
    looked_at := step.high - step.low;
    PERFORM FROM counters JOIN reconciled USING (type_id, period)
    WHERE counters.type_id = the_type AND counters.next > reconciled.stands_at LIMIT 1;
    is_done := NOT FOUND;
END $$;
