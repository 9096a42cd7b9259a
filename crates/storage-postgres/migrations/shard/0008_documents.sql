-- Documents in the outbox: a document is a delivery that has a number of a counter.
--
-- Its number and what the client calls it are in the row of its content, which never changes. The small
-- rows that say where a delivery stands have its type, or 0 if it is none of a document.

ALTER TABLE deliveries
    ADD COLUMN type_id     bigint,
    ADD COLUMN period      text COLLATE "C",
    ADD COLUMN serial      bigint,
    ADD COLUMN reference   text COLLATE "C",
    ADD COLUMN request_key text COLLATE "C",
    ADD COLUMN key_id      bigint;

CREATE UNIQUE INDEX documents_by_serial ON deliveries (type_id, period, serial)
    WHERE type_id IS NOT NULL;
CREATE INDEX documents_by_type ON deliveries (type_id, number) WHERE type_id IS NOT NULL;
CREATE UNIQUE INDEX documents_by_reference ON deliveries (type_id, reference)
    WHERE reference IS NOT NULL;
CREATE UNIQUE INDEX documents_by_request_key ON deliveries (request_key)
    WHERE request_key IS NOT NULL;

-- `has_gap`: the number is on record as a gap, because this was given up before and is tried again. So
-- nobody has to look for a gap when something arrives that was never given up.
ALTER TABLE pending_deliveries
    ADD COLUMN type_id bigint NOT NULL DEFAULT 0,
    ADD COLUMN has_gap boolean NOT NULL DEFAULT false;

-- What has to arrive in order is taken by number, however late a retry has become due.
--
-- `number + 0` sorts like the number, and no search for a number can use it. To the planner this table
-- nearly always looks empty, and then any index that has the number in it looks as good as the primary
-- key; but to look for a number at the end of an index is to read all of it, entries of rows that were
-- deleted a moment ago included.
CREATE INDEX pending_deliveries_in_order ON pending_deliveries (receiver, type_id, (number + 0));
DROP INDEX pending_deliveries_by_turn;
CREATE INDEX pending_deliveries_by_turn ON pending_deliveries (receiver, due_at, (number + 0));

ALTER TABLE settled_deliveries ADD COLUMN type_id bigint NOT NULL DEFAULT 0;

-- Documents are not forgotten.
DROP INDEX settled_deliveries_by_age;
CREATE INDEX settled_deliveries_to_forget ON settled_deliveries (settled_at)
    WHERE state IN ('delivered', 'abandoned') AND type_id = 0;
CREATE INDEX settled_documents_failed ON settled_deliveries (type_id, state, number)
    WHERE state IN ('dead', 'abandoned') AND type_id <> 0;

-- Records that the numbers of documents are gaps. One that is a gap already has another reason now.
-- Every document has a row of its own, because a person decides about every one by itself.
CREATE FUNCTION lose_documents(numbers bigint[], why text, at timestamptz)
RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT type_id, period, serial, serial + 1, why, at, ''
    FROM deliveries WHERE number = ANY (numbers) AND type_id IS NOT NULL
    ORDER BY type_id, period, serial
    ON CONFLICT (type_id, period, stop) WHERE closed_at IS NULL
        DO UPDATE SET reason = excluded.reason;
END $$;

-- Closes the gaps of documents that have arrived after all.
CREATE FUNCTION find_lost_documents(numbers bigint[], at timestamptz)
RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM split_gaps(array_agg(type_id), array_agg(period), array_agg(serial),
                       array_agg(serial + 1), at)
    FROM deliveries WHERE number = ANY (numbers) AND type_id IS NOT NULL
    HAVING count(*) > 0;
END $$;

-- Locks the first so many deliveries to a receiver that may be taken if those of each type have to
-- arrive in order. Nothing is taken behind one that is not due, or that somebody else has locked: this
-- one may be under way. It is passed over, as everywhere, so nobody waits for anybody.
CREATE FUNCTION lock_in_order(the_receiver bigint, most bigint, at timestamptz)
RETURNS SETOF bigint LANGUAGE sql AS $$
    WITH RECURSIVE types (type_id) AS (
        (SELECT type_id FROM pending_deliveries WHERE receiver = the_receiver
         ORDER BY type_id LIMIT 1)
        UNION ALL
        SELECT (SELECT later.type_id FROM pending_deliveries AS later
                WHERE later.receiver = the_receiver AND later.type_id > types.type_id
                ORDER BY later.type_id LIMIT 1)
        FROM types WHERE types.type_id IS NOT NULL
    ), first AS MATERIALIZED (
        SELECT types.type_id, candidate.number,
               row_number() OVER numbers AS place,
               bool_and(candidate.due_at <= at) OVER numbers AS in_turn
        FROM types CROSS JOIN LATERAL (
            SELECT number, due_at FROM pending_deliveries
            WHERE receiver = the_receiver AND type_id = types.type_id
            ORDER BY number + 0 LIMIT most) AS candidate
        WHERE types.type_id IS NOT NULL
        WINDOW numbers AS (PARTITION BY types.type_id ORDER BY candidate.number)
    ), locked AS MATERIALIZED (
        SELECT first.type_id, first.number, first.place
        FROM first CROSS JOIN LATERAL (
            SELECT FROM pending_deliveries AS pending
            WHERE pending.number = first.number AND pending.due_at <= at
            FOR NO KEY UPDATE SKIP LOCKED) AS pending
        WHERE first.in_turn
    ), counted AS (
        SELECT number, place, row_number() OVER (PARTITION BY type_id ORDER BY number) AS turn
        FROM locked
    )
    SELECT number FROM counted WHERE place = turn ORDER BY number LIMIT most
$$;

-- Makes a settled delivery due at once, with all attempts. False if it is none. A gap stays one until
-- the document has arrived.
CREATE OR REPLACE FUNCTION retry_delivery(the_delivery bigint, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH taken AS (
        DELETE FROM settled_deliveries WHERE number = the_delivery
        RETURNING *
    )
    INSERT INTO pending_deliveries (number, receiver, type_id, has_gap, due_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status, last_error)
    SELECT number, receiver, type_id, type_id <> 0 AND state <> 'delivered', at, 0, token,
           last_attempt, last_at, last_us, last_status, last_error
    FROM taken;
    RETURN FOUND;
END $$;

-- Gives up pending deliveries, whoever has a claim on them, and says how many of them there were.
CREATE OR REPLACE FUNCTION abandon_pending(numbers bigint[], at timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    abandoned bigint;
    documents bigint[];
BEGIN
    PERFORM FROM unnest(numbers) AS wanted (number)
    CROSS JOIN LATERAL (
        SELECT FROM pending_deliveries AS pending
        WHERE pending.number = wanted.number FOR UPDATE) AS locked;
    WITH taken AS (
        DELETE FROM pending_deliveries WHERE number = ANY (numbers)
        RETURNING *
    ), settled AS (
        INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts,
                                        token, last_attempt, last_at, last_us, last_status,
                                        last_error)
        SELECT number, receiver, type_id, 'abandoned', at, attempts, token + 1,
               last_attempt, last_at, last_us, last_status, last_error
        FROM taken
    )
    SELECT count(*), array_agg(number) FILTER (WHERE type_id <> 0) INTO abandoned, documents
    FROM taken;
    PERFORM lose_documents(documents, 'abandoned', at);
    RETURN abandoned;
END $$;

-- Gives up a delivery that is pending or a dead letter. False if it is neither.
CREATE OR REPLACE FUNCTION abandon_delivery(the_delivery bigint, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF abandon_pending(ARRAY[the_delivery], at) > 0 THEN
        RETURN true;
    END IF;
    -- One that was settled a moment ago is seen by now.
    UPDATE settled_deliveries SET state = 'abandoned', settled_at = at
    WHERE number = the_delivery AND state = 'dead';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM lose_documents(ARRAY[the_delivery], 'abandoned', at);
    RETURN true;
END $$;

-- Notes that a delivery has arrived although it was given up on. False if it has arrived before.
CREATE FUNCTION note_arrival(
    the_delivery bigint, the_attempt integer, began timestamptz, took_us bigint,
    the_status integer, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- Whoever settles it just now comes first.
    PERFORM FROM pending_deliveries WHERE number = the_delivery FOR UPDATE;
    PERFORM FROM settled_deliveries WHERE number = the_delivery AND state <> 'delivered' FOR UPDATE;
    IF FOUND THEN
        PERFORM retry_delivery(the_delivery, at);
    END IF;
    -- Whoever has a claim on it finds that the claim has ended. One that had arrived before is pending
    -- because somebody wants it sent once more.
    WITH ended AS (
        DELETE FROM pending_deliveries
        WHERE number = the_delivery AND (last_attempt IS NULL OR last_error IS NOT NULL)
        RETURNING *
    )
    INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status)
    SELECT number, receiver, type_id, 'delivered', at, greatest(attempts, the_attempt), token + 1,
           the_attempt, began, took_us, the_status
    FROM ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM find_lost_documents(ARRAY[the_delivery], at);
    RETURN true;
END $$;
