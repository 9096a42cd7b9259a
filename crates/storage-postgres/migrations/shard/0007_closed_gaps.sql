-- Gaps that turned out to be none, gaps that somebody has accepted, and where counters began.
--
-- An instance of the release before goes on working: the functions that it calls are there with the
-- parameters that it knows. It shows closed gaps as if they were open.

-- A gap is closed when its document has arrived after all. It stays on record with both times.
ALTER TABLE gaps
    ADD COLUMN closed_at timestamptz,
    ADD COLUMN signed_by bigint,
    ADD COLUMN signed_at timestamptz,
    ADD COLUMN sign_note text;

-- Open gaps of one counter never overlap, so the first one that ends behind a serial is the only one
-- that can hold it. Closed ones may overlap with anything: a number can be lost and found again more
-- than once.
DROP INDEX gaps_by_serial;
CREATE UNIQUE INDEX gaps_open ON gaps (type_id, period, stop) WHERE closed_at IS NULL;
CREATE INDEX gaps_closed ON gaps USING gist (int8range(start, stop)) WHERE closed_at IS NOT NULL;

-- How far each counter was compared with what became of its serials. A row is made with its counter,
-- because nothing else says where that one began, and goes back when its counter does. What was drawn before this table was made is not
-- looked at: serials that a filter had rejected left no trace then.
CREATE TABLE reconciled (
    type_id   bigint NOT NULL,
    period    text COLLATE "C" NOT NULL,
    stands_at bigint NOT NULL,
    PRIMARY KEY (type_id, period)
) WITH (fillfactor = 50);

INSERT INTO reconciled (type_id, period, stands_at) SELECT type_id, period, next FROM counters;

-- Takes the next serials of a counter, as before, and notes where a new counter begins. When none is
-- wanted, all it does is to lock the counter and say where it stands.
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
    END IF;
    IF NOT known.used THEN
        UPDATE meta SET version = version + 1;
    END IF;
END $$;

-- Gives up the end of what a holder has, as before. What went back to the counter is looked at again
-- when it has been drawn again.
CREATE OR REPLACE FUNCTION give_back_serials(
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
        UPDATE reconciled SET stands_at = the_start
        WHERE type_id = the_type AND period = the_period AND reconciled.stands_at > the_start;
        RETURN true;
    END IF;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    VALUES (the_type, the_period, the_start, the_stop, 'pool_discarded', detected, the_holder);
    RETURN false;
END $$;

-- Takes spans off open gaps, or, given a time, closes these parts of them. What is left of a gap keeps
-- its number, and has further ones where it is in several parts: the numbers are places in a list that
-- somebody may be reading. All parts stay accepted if the whole was.
CREATE FUNCTION split_gaps(
    types bigint[], periods text[], starts bigint[], stops bigint[], closed timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hit record;
BEGIN
    FOR hit IN
        SELECT gaps.*,
               int8multirange(int8range(gaps.start, gaps.stop)) - taken.spans AS rest,
               int8multirange(int8range(gaps.start, gaps.stop)) * taken.spans AS removed
        FROM gaps JOIN spans_by_counter(types, periods, starts, stops) AS taken
            ON gaps.type_id = taken.type_id AND gaps.period = taken.period
           AND gaps.stop > lower(taken.spans)
           AND int8range(gaps.start, gaps.stop) && taken.spans
        WHERE gaps.closed_at IS NULL
        ORDER BY gaps.type_id, gaps.period, gaps.stop FOR UPDATE OF gaps
    LOOP
        IF isempty(hit.rest) THEN
            IF closed IS NULL THEN
                DELETE FROM gaps WHERE id = hit.id;
            ELSE
                UPDATE gaps SET closed_at = closed WHERE id = hit.id;
            END IF;
            CONTINUE;
        END IF;
        UPDATE gaps SET start = lower(part), stop = upper(part)
        FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place)
        WHERE id = hit.id AND place = 1;
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance,
                          closed_at, signed_by, signed_at, sign_note)
        SELECT hit.type_id, hit.period, lower(part), upper(part), hit.reason, hit.detected_at,
               hit.instance, part_closed, hit.signed_by, hit.signed_at, hit.sign_note
        FROM (SELECT part, NULL::timestamptz AS part_closed
              FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place) WHERE place > 1
              UNION ALL
              SELECT part, closed FROM unnest(hit.removed) AS parts (part)
              WHERE closed IS NOT NULL) AS pieces;
    END LOOP;
END $$;

-- Takes spans off gaps: an instance that was taken for gone and was not has issued them after all.
CREATE OR REPLACE FUNCTION take_off_gaps(
    types bigint[], periods text[], starts bigint[], stops bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM split_gaps(types, periods, starts, stops, NULL);
END $$;
