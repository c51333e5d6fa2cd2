"""What Alembic runs: the migrations, inside the transaction of the connection it was handed."""

from alembic import context

from im2wingen.db.models import VERSION_TABLE, Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
