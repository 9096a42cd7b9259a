-- What a tenant may order, where that is not what everybody may.
ALTER TABLE tenants ADD COLUMN active_batches_max bigint;
ALTER TABLE tenants ADD COLUMN codes_max bigint;
