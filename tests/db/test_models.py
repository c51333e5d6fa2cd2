import pytest
from alembic import config, script
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from im2wingen.db import TuningDatabase
from im2wingen.db.connection import _MIGRATIONS
from im2wingen.db.models import REVISIONS, VERSION_TABLE, Base


def test_the_migrations_arrive_at_the_models():
    with TuningDatabase.open("sqlite://") as database, database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_every_migration_is_a_known_revision():
    settings = config.Config()
    settings.set_main_option("script_location", str(_MIGRATIONS))
    found = [entry.revision for entry in script.ScriptDirectory.from_config(settings).walk_revisions()]
    assert tuple(reversed(found)) == REVISIONS


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()], ids=lambda dialect: dialect.name)
def test_the_tables_can_be_written_in_every_dialect(dialect):
    for table in Base.metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
