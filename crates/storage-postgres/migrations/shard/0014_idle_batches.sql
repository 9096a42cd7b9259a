-- For how long batches had nothing but dead letters left to do: nobody worked on them, so it is no part
-- of the time that they took.

ALTER TABLE batches ADD COLUMN idle_since timestamptz;
ALTER TABLE batches ADD COLUMN idle_ms bigint NOT NULL DEFAULT 0;

-- Notes in a batch what became of one of its chunks, as before, and whether only dead letters are left.
-- All chunks but the last have the same size, so that can be told from their number.
CREATE OR REPLACE FUNCTION note_chunk(
    the_batch bigint, more_made bigint, more_abandoned bigint, more_dead bigint, why text,
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before    record;
    noted     record;
    unmade    bigint;
    only_dead boolean;
BEGIN
    SELECT state, stop - start - made - abandoned AS unmade, dead_chunks, chunk_serials INTO before
    FROM batches WHERE id = the_batch FOR NO KEY UPDATE;
    unmade := before.unmade - more_made - more_abandoned;
    only_dead := unmade > 0
        AND unmade <= (before.dead_chunks + more_dead) * before.chunk_serials;
    UPDATE batches SET made = made + more_made, abandoned = abandoned + more_abandoned,
        dead_chunks = dead_chunks + more_dead, error = coalesce(why, error),
        state = CASE
            WHEN unmade = 0 THEN 'completed'
            WHEN dead_chunks + more_dead > 0 THEN 'needs_attention'
            ELSE 'running' END,
        finished_at = CASE WHEN unmade = 0 THEN at END,
        idle_since = CASE WHEN only_dead THEN coalesce(idle_since, at) END,
        idle_ms = idle_ms + CASE
            WHEN only_dead OR idle_since IS NULL THEN 0
            ELSE greatest(0, extract(epoch FROM at - idle_since) * 1000)::bigint END
    WHERE id = the_batch
    RETURNING tenant, state INTO noted;
    IF noted.state = 'completed' THEN
        UPDATE batch_tenants SET under_way = under_way - 1 WHERE tenant = noted.tenant;
    END IF;
    IF noted.state <> before.state AND noted.state IN ('completed', 'needs_attention') THEN
        INSERT INTO events (batch_id, state, at) VALUES (the_batch, noted.state, at);
    END IF;
END $$;
