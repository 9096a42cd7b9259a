-- Documents that have to arrive in order are put on record in order, and dead letters can be moved.
--
-- A document has its number before others can see it. So of two instances the one that came second could
-- be seen first, and what it had put on record be delivered before what it should follow. Numbers of a
-- gapless type are in order anyway, because their counter is locked.
--
-- An instance of the release before goes on working, without this lock.

-- Waits until all who came before have put their documents of a type for a sink on record. This lock comes
-- before all others.
CREATE FUNCTION await_turn(sink bigint, the_type bigint)
RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(1296979017, hashint8(sink) # hashint8(the_type))
$$;

-- As `assign_documents`, in order.
CREATE FUNCTION assign_in_order(
    the_type bigint, the_revision bigint, the_period text, the_holder text, low bigint, high bigint,
    starts bigint[], stops bigint[], widths smallint[], packed bytea[],
    places integer[], serials bigint[], ids text[], payloads text[], client_references text[],
    request_keys text[], askers bigint[], sink bigint, claimed_until timestamptz, at timestamptz
) RETURNS TABLE (its_serial bigint, its_number bigint, its_subject text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM await_turn(sink, the_type);
    RETURN QUERY
        SELECT put.its_serial, put.its_number, put.its_subject
        FROM assign_documents(the_type, the_revision, the_period, the_holder, low, high, starts,
                              stops, widths, packed, places, serials, ids, payloads,
                              client_references, request_keys, askers, sink, claimed_until,
                              at) AS put;
END $$;

-- As `confirm_reservation`, in order.
CREATE FUNCTION confirm_in_order(
    the_reservation bigint, payload text, its_reference text, its_request_key text, asker bigint,
    sink bigint, log_entry bytea, at timestamptz,
    OUT outcome text, OUT figure bigint, OUT other text
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM await_turn(sink, type_id) FROM reservations WHERE number = the_reservation;
    SELECT done.outcome, done.figure, done.other INTO outcome, figure, other
    FROM confirm_reservation(the_reservation, payload, its_reference, its_request_key, asker, sink,
                             log_entry, at) AS done;
END $$;

-- Documents that are dead letters because their sink is gone go to another one. As `retry_documents`
-- otherwise. This is the only time that the row of a content changes.
CREATE FUNCTION move_documents(the_type bigint, numbers bigint[], sink bigint, at timestamptz)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    dead bigint[] := lock_dead_documents(the_type, numbers);
BEGIN
    INSERT INTO delivery_receivers (receiver, tenant)
    SELECT sink, tenant FROM id_types WHERE id = the_type
    ON CONFLICT DO NOTHING;
    UPDATE deliveries SET receiver = sink WHERE number = ANY (dead);
    UPDATE settled_deliveries SET receiver = sink WHERE number = ANY (dead);
    RETURN QUERY SELECT * FROM retry_documents(the_type, dead, at);
END $$;
