-- Attempts that have failed, since a delivery was put on record or tried again by hand. `attempts` also has
-- those of instances that were gone before they could say how it went. An instance of the release before
-- goes on working, and does not count.
ALTER TABLE pending_deliveries ADD COLUMN failures integer NOT NULL DEFAULT 0;
