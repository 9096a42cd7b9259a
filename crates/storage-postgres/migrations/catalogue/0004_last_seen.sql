-- When instances were last seen, which is when those that are gone have lost what they had drawn.
--
-- One of the release before does not say so, and counts as seen when it joined.
ALTER TABLE instances ADD COLUMN seen_at timestamptz DEFAULT clock_timestamp();
