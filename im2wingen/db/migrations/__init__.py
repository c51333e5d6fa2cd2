"""Alembic's scripts; `im2wingen.db.connection` runs them, the last in `versions` is the current schema."""
