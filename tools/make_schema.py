"""Write the newest SQLite schema as one script; run it after adding a migration."""

from contextlib import closing

from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import open_database
from holdfast.kernel.storage.sqlite.engine import FOLDERS

if __name__ == "__main__":
    with closing(open_database(":memory:")) as connection:
        schema.SCRIPT.write_text(schema.dump_schema(migrations.load_migrations(*FOLDERS), connection), "utf-8")
