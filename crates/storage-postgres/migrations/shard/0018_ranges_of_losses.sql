-- Numbers of documents that are lost together are one gap, as ranges.
--
-- An instance of the release before goes on working: the function that it calls is there with the
-- parameters that it knows.

-- Records that the numbers of documents are gaps. One that is a gap for the same reason stays as it is.
-- For another reason it is another gap, and the first one is over: somebody may have accepted that.
--
-- The documents are looked up by their numbers first, one by one: with the order that the gaps have, a
-- plan could read all documents of all types to save a sort.
CREATE OR REPLACE FUNCTION lose_documents(numbers bigint[], why text, at timestamptz)
RETURNS void LANGUAGE plpgsql STRICT AS $$
DECLARE
    types bigint[];
    periods text[];
    serials bigint[];
    otherwise boolean[];
BEGIN
    SELECT array_agg(document.type_id), array_agg(document.period), array_agg(document.serial),
           array_agg(known.reason IS NOT NULL)
    INTO types, periods, serials, otherwise
    FROM (SELECT DISTINCT number FROM unnest(numbers) AS lost (number)) AS lost
    CROSS JOIN LATERAL (
        SELECT type_id, period, serial FROM deliveries
        WHERE deliveries.number = lost.number AND type_id IS NOT NULL OFFSET 0) AS document
    LEFT JOIN LATERAL (
        SELECT gaps.start, gaps.reason FROM gaps
        WHERE gaps.type_id = document.type_id AND gaps.period = document.period
          AND gaps.stop > document.serial AND closed_at IS NULL
        ORDER BY gaps.stop LIMIT 1) AS known ON known.start <= document.serial
    WHERE known.reason IS DISTINCT FROM why;

    PERFORM split_gaps(array_agg(type_id), array_agg(period), array_agg(serial),
                       array_agg(serial + 1), at)
    FROM unnest(types, periods, serials, otherwise) AS lost (type_id, period, serial, is_gap)
    WHERE is_gap HAVING count(*) > 0;

    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT type_id, period, min(serial), max(serial) + 1, why, at, ''
    FROM (SELECT type_id, period, serial,
                 serial - row_number() OVER (PARTITION BY type_id, period ORDER BY serial) AS run
          FROM unnest(types, periods, serials) AS lost (type_id, period, serial)) AS lost
    GROUP BY type_id, period, run
    ORDER BY type_id, period, min(serial);
END $$;
