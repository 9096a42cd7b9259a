-- Giving documents their numbers, and holding numbers for somebody.
--
-- Rows are locked in the order of the functions before: counter, type, draws, gaps. A reservation comes
-- before all of them, and so does a pending delivery; no step has to do with both.

-- Numbers that are held, or were. `delivery` is that of the document that has the number by now.
CREATE TABLE reservations (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type_id    bigint NOT NULL,
    period     text COLLATE "C" NOT NULL,
    serial     bigint NOT NULL,
    id         text NOT NULL,
    key_id     bigint NOT NULL,
    state      text NOT NULL DEFAULT 'held'
        CHECK (state IN ('held', 'confirmed', 'released', 'expired')),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    delivery   bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX reservations_by_serial ON reservations (type_id, period, serial);
CREATE INDEX reservations_to_expire ON reservations (expires_at) WHERE state = 'held';

-- Takes spans off what a holder has, all of them. Some may be on record as lost, because somebody took
-- the holder for gone: these gaps are closed. Whatever else is not there is with somebody else.
CREATE FUNCTION spend_serials(
    the_type bigint, the_period text, the_holder text, starts bigint[], stops bigint[],
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    spent   int8multirange;
    used_up boolean;
    lost    int8multirange;
    in_gaps int8multirange;
BEGIN
    SELECT range_agg(int8range(span.start, span.stop)) INTO spent
    FROM unnest(starts, stops) AS span (start, stop);
    UPDATE draws SET open = open - spent
    WHERE type_id = the_type AND period = the_period AND holder = the_holder AND open @> spent
    RETURNING isempty(open) INTO used_up;
    IF NOT FOUND THEN
        SELECT spent - open INTO lost FROM draws
        WHERE type_id = the_type AND period = the_period AND holder = the_holder FOR UPDATE;
        lost := coalesce(lost, spent);
        SELECT range_agg(int8range(start, stop)) INTO in_gaps
        FROM (SELECT start, stop FROM gaps
              WHERE type_id = the_type AND period = the_period AND closed_at IS NULL
                AND stop > lower(lost) AND int8range(start, stop) && lost
                AND reason IN ('crash', 'pool_discarded', 'untracked_loss')
              ORDER BY stop FOR UPDATE) AS locked;
        -- Nothing at all is missing if the holder was given some a moment ago.
        IF NOT coalesce(in_gaps, '{}') @> lost THEN
            RAISE EXCEPTION 'a number is with somebody else' USING ERRCODE = 'MT409';
        END IF;
        PERFORM split_gaps(array_agg(the_type), array_agg(the_period), array_agg(lower(span)),
                           array_agg(upper(span)), at)
        FROM unnest(lost) AS span
        HAVING count(*) > 0;
        UPDATE draws SET open = open - spent
        WHERE type_id = the_type AND period = the_period AND holder = the_holder
        RETURNING isempty(open) INTO used_up;
    END IF;
    IF used_up THEN
        DELETE FROM draws
        WHERE type_id = the_type AND period = the_period AND holder = the_holder;
    END IF;
END $$;

-- Puts documents whose numbers are accounted for into the outbox: due at once, or claimed for a first
-- attempt. Their subject is the name of their type. `places` are theirs in the order of creation: they
-- come in another one where they have references or keys, so that steps which bring the same ones do not
-- wait for each other in a circle.
CREATE FUNCTION put_documents(
    the_type bigint, the_period text, places integer[], serials bigint[], ids text[],
    payloads text[], client_references text[], request_keys text[], askers bigint[],
    sink bigint, claimed_until timestamptz, at timestamptz
) RETURNS TABLE (its_serial bigint, its_number bigint, its_subject text) LANGUAGE plpgsql AS $$
DECLARE
    claims  integer := CASE WHEN claimed_until IS NULL THEN 0 ELSE 1 END;
    known   record;
    numbers bigint[];
BEGIN
    SELECT tenant, name INTO known FROM id_types WHERE id = the_type;
    numbers := ARRAY(SELECT nextval('deliveries_number_seq')
                     FROM generate_series(1, cardinality(places)));
    PERFORM FROM delivery_receivers WHERE receiver = sink;
    IF NOT FOUND THEN
        INSERT INTO delivery_receivers (receiver, tenant) VALUES (sink, known.tenant)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN QUERY
        WITH put AS (
            INSERT INTO deliveries (number, receiver, key, subject, body, created_at, type_id,
                                    period, serial, reference, request_key, key_id)
                OVERRIDING SYSTEM VALUE
            SELECT numbers[document.place], sink, document.id, known.name, document.payload, at,
                   the_type, the_period, document.serial, document.reference,
                   document.request_key, document.asker
            FROM unnest(places, serials, ids, payloads, client_references, request_keys, askers)
                AS document (place, serial, id, payload, reference, request_key, asker)
            RETURNING deliveries.serial, deliveries.number
        ), queued AS (
            INSERT INTO pending_deliveries (number, receiver, type_id, due_at, attempts, token)
            SELECT put.number, sink, the_type, coalesce(claimed_until, at), claims, claims FROM put
        )
        SELECT put.serial, put.number, known.name FROM put;
END $$;

-- Gives documents their numbers. With a holder, these were drawn before. Without one they are the next
-- ones of the counter, and `low` and `high` its bounds; each has its ID already, so if the counter stands
-- anywhere else by now, nothing is done. Nor is it if a reference or request key is on record. In both
-- cases no row comes back, and the caller looks again.
CREATE FUNCTION assign_documents(
    the_type bigint, the_revision bigint, the_period text, the_holder text, low bigint, high bigint,
    starts bigint[], stops bigint[], widths smallint[], packed bytea[],
    places integer[], serials bigint[], ids text[], payloads text[], client_references text[],
    request_keys text[], askers bigint[], sink bigint, claimed_until timestamptz, at timestamptz
) RETURNS TABLE (its_serial bigint, its_number bigint, its_subject text) LANGUAGE plpgsql AS $$
DECLARE
    known     record;
    stands_at bigint;
BEGIN
    IF the_holder IS NULL THEN
        SELECT retired, revision INTO known FROM id_types WHERE id = the_type;
    ELSE
        -- Whoever changes the type waits, or has changed it. Drawing sees to it otherwise.
        SELECT retired, revision INTO known FROM id_types WHERE id = the_type FOR SHARE;
    END IF;
    IF NOT FOUND OR known.retired THEN
        RAISE EXCEPTION 'there is no such type' USING ERRCODE = 'MT404';
    ELSIF known.revision <> the_revision THEN
        RAISE EXCEPTION 'the type was changed' USING ERRCODE = 'MT409';
    END IF;
    IF the_holder IS NULL THEN
        SELECT next INTO stands_at FROM counters
        WHERE type_id = the_type AND period = the_period FOR UPDATE;
        IF stands_at IS DISTINCT FROM starts[1] THEN
            RETURN;
        END IF;
    END IF;
    IF cardinality(array_remove(client_references, NULL)) > 0 THEN
        PERFORM FROM deliveries
        WHERE type_id = the_type AND reference = ANY (client_references) LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF cardinality(array_remove(request_keys, NULL)) > 0 THEN
        PERFORM FROM deliveries WHERE request_key = ANY (request_keys) LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;

    IF the_holder IS NULL THEN
        SELECT behind INTO stands_at
        FROM draw_serials(the_type, the_period, cardinality(serials), low, high, NULL,
                          the_revision);
        IF stands_at IS DISTINCT FROM stops[cardinality(stops)] THEN
            RAISE EXCEPTION 'the counter does not have these numbers' USING ERRCODE = 'MT409';
        END IF;
    END IF;
    PERFORM write_log(array_fill(the_type, ARRAY[cardinality(starts)]),
                      array_fill(the_period, ARRAY[cardinality(starts)]),
                      widths, starts, stops, packed);
    IF the_holder IS NOT NULL THEN
        PERFORM spend_serials(the_type, the_period, the_holder, starts, stops, at);
    END IF;
    RETURN QUERY
        SELECT put.its_serial, put.its_number, put.its_subject
        FROM put_documents(the_type, the_period, places, serials, ids, payloads,
                           client_references, request_keys, askers, sink, claimed_until,
                           at) AS put;
END $$;

-- Holds a number that was drawn before.
CREATE FUNCTION reserve_serial(
    the_type bigint, the_revision bigint, the_period text, the_holder text, the_serial bigint,
    its_id text, asker bigint, expires timestamptz, at timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    its_number bigint;
BEGIN
    PERFORM FROM id_types WHERE id = the_type AND NOT retired;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such type' USING ERRCODE = 'MT404';
    END IF;
    PERFORM FROM id_types
    WHERE id = the_type AND NOT retired AND revision = the_revision FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the type was changed' USING ERRCODE = 'MT409';
    END IF;
    UPDATE draws SET open = open - int8multirange(int8range(the_serial, the_serial + 1))
    WHERE type_id = the_type AND period = the_period AND holder = the_holder
      AND open @> the_serial;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the number is with somebody else' USING ERRCODE = 'MT409';
    END IF;
    DELETE FROM draws
    WHERE type_id = the_type AND period = the_period AND holder = the_holder AND isempty(open);
    INSERT INTO reservations (type_id, period, serial, id, key_id, expires_at, created_at)
    VALUES (the_type, the_period, the_serial, its_id, asker, expires, at)
    RETURNING number INTO its_number;
    RETURN its_number;
END $$;

-- A reservation as it is at a time, locked. The number of one whose time has run out is a gap from now
-- on, whether or not somebody has noticed before.
CREATE FUNCTION lock_reservation(the_reservation bigint, at timestamptz, OUT locked reservations)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO locked FROM reservations WHERE number = the_reservation FOR UPDATE;
    IF locked.state = 'held' AND locked.expires_at <= at THEN
        locked.state := 'expired';
        PERFORM give_up_reservation(locked, at);
    END IF;
END $$;

-- Ends a reservation that is held and makes a gap of its number.
CREATE FUNCTION give_up_reservation(ended reservations, at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE reservations SET state = ended.state WHERE number = ended.number;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    VALUES (ended.type_id, ended.period, ended.serial, ended.serial + 1,
            'reservation_' || ended.state, at, '');
END $$;

-- Gives a document the number that is held for it. `log_entry` is the issue of that number, packed.
-- `figure` is the delivery of a document that has it, and `other` the ID of another one that has its
-- reference, or the state of a reservation that does not hold its number any more.
CREATE FUNCTION confirm_reservation(
    the_reservation bigint, payload text, its_reference text, its_request_key text, asker bigint,
    sink bigint, log_entry bytea, at timestamptz,
    OUT outcome text, OUT figure bigint, OUT other text
) LANGUAGE plpgsql AS $$
DECLARE
    held reservations;
BEGIN
    held := lock_reservation(the_reservation, at);
    IF held.number IS NULL THEN
        outcome := 'missing';
        RETURN;
    ELSIF held.state <> 'held' THEN
        SELECT number INTO figure FROM deliveries
        WHERE number = held.delivery AND body = payload;
        outcome := CASE WHEN figure IS NULL THEN 'not_held' ELSE 'done' END;
        other := held.state;
        RETURN;
    END IF;
    SELECT key INTO other FROM deliveries WHERE request_key = its_request_key;
    IF NOT FOUND THEN
        SELECT key INTO other FROM deliveries
        WHERE type_id = held.type_id AND reference = its_reference;
    END IF;
    IF FOUND THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    PERFORM write_log(ARRAY[held.type_id], ARRAY[held.period], ARRAY[0::smallint],
                      ARRAY[held.serial], ARRAY[held.serial + 1], ARRAY[log_entry]);
    SELECT its_number INTO figure
    FROM put_documents(held.type_id, held.period, ARRAY[1], ARRAY[held.serial], ARRAY[held.id],
                       ARRAY[payload], ARRAY[its_reference], ARRAY[its_request_key],
                       ARRAY[asker], sink, NULL, at);
    UPDATE reservations SET state = 'confirmed', delivery = figure WHERE number = the_reservation;
    outcome := 'done';
END $$;

-- Gives a number up that is held.
CREATE FUNCTION release_reservation(the_reservation bigint, at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held reservations;
BEGIN
    held := lock_reservation(the_reservation, at);
    IF held.state = 'held' THEN
        held.state := 'released';
        PERFORM give_up_reservation(held, at);
    END IF;
END $$;

-- Makes gaps of numbers whose time has run out. Those that somebody is confirming or releasing just now
-- are left to them.
CREATE FUNCTION expire_reservations(most bigint, at timestamptz)
RETURNS TABLE (its_type bigint, its_period text, its_serial bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT number FROM reservations WHERE state = 'held' AND expires_at <= at
            ORDER BY expires_at LIMIT most FOR UPDATE SKIP LOCKED
        ), expired AS (
            UPDATE reservations SET state = 'expired'
            WHERE number = ANY (ARRAY(SELECT due.number FROM due))
            RETURNING type_id, period, serial
        ), lost AS (
            INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
            SELECT type_id, period, serial, serial + 1, 'reservation_expired', at, '' FROM expired
            ORDER BY type_id, period, serial
        )
        SELECT type_id, period, serial FROM expired ORDER BY type_id, period, serial;
END $$;
