-- What a tenant may order, where that is not what everybody may.
ALTER TABLE tenants ADD COLUMN active_batches_max INTEGER;
ALTER TABLE tenants ADD COLUMN codes_max INTEGER;
