"""One file a schema; each is listed in `im2wingen.db.models.REVISIONS`."""
