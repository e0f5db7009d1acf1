-- What runs in which image, as JSON, for skills that are no component.
ALTER TABLE skills ADD COLUMN container TEXT;
