-- Tables of their own for what happens to codes after they were made; and word of orders.
--
-- Codes are written once, in order, and never changed. Whatever happens to them touches rows that are
-- spread over all of them, and the first change of a page after a checkpoint writes the whole page
-- into the log. A table that has only the codes that something happened to is smaller by far, and new
-- rows go to its end.

-- As long as the tables move, nobody may cut this short.
SET LOCAL statement_timeout = 0;

-- Makes the tables for some of a type's codes, `codes_` and `marks_` with the same ending. False if no
-- batch has such codes, so that nobody can ask for tables that will never hold anything. Rows of codes
-- are written in order of serials, and a code is looked for by its serial alone: there is no other
-- index. Marks change with every scan, so pages have room for the next version.
CREATE FUNCTION make_code_tables(ending text, the_type bigint, low bigint, high bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('%I', 'codes_' || ending)) IS NOT NULL
        AND to_regclass(format('%I', 'marks_' || ending)) IS NOT NULL THEN
        RETURN true;
    END IF;
    PERFORM FROM batches WHERE type_id = the_type AND start < high AND stop > low LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(1296979015, 6);
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS %I (
            serial bigint PRIMARY KEY,
            id     bigint NOT NULL
        )', 'codes_' || ending);
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS %I (
            serial           bigint PRIMARY KEY,
            scans            bigint NOT NULL DEFAULT 0,
            first_scanned_at timestamptz,
            void_at          timestamptz,
            void_reason      text
        ) WITH (fillfactor = 80)', 'marks_' || ending);
    RETURN true;
END $$;

DROP FUNCTION make_code_table;

-- What happened so far. Nobody can count a scan in the old place from here on: the columns are gone.
DO $$
DECLARE
    codes  name;
    ending text;
BEGIN
    FOR codes IN
        SELECT relname FROM pg_class
        WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
          AND relname ~ '^codes_[0-9]+_[0-9]+$'
        ORDER BY relname
    LOOP
        ending := substr(codes, length('codes_') + 1);
        EXECUTE format('LOCK TABLE %I', codes);
        PERFORM make_code_tables(
            ending, split_part(ending, '_', 1)::bigint, 0, 9223372036854775807);
        EXECUTE format(
            'INSERT INTO %I (serial, scans, first_scanned_at, void_at, void_reason)
             SELECT serial, scans, first_scanned_at, void_at, void_reason FROM %I
             WHERE scans > 0 OR void_at IS NOT NULL', 'marks_' || ending, codes);
        EXECUTE format(
            'ALTER TABLE %I DROP COLUMN scans, DROP COLUMN first_scanned_at,
                 DROP COLUMN void_at, DROP COLUMN void_reason', codes);
    END LOOP;
END $$;

-- Tells the idle workers of all instances of an order, when it is committed.
CREATE FUNCTION tell_of_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('mintage_orders', '');
    RETURN NULL;
END $$;

CREATE TRIGGER orders_are_told AFTER INSERT ON batches
FOR EACH ROW WHEN (NEW.ledger = 'stored') EXECUTE FUNCTION tell_of_order();
