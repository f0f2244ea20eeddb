"""A new file has the tables that the migrations make."""

from contextlib import closing

from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.sqlite import schema
from holdfast.kernel.storage.sqlite.connection import open_database
from holdfast.kernel.storage.sqlite.engine import FOLDERS


def test_the_schema_of_a_new_file_is_the_sum_of_the_migrations() -> None:
    with closing(open_database(":memory:")) as connection:
        dumped = schema.dump_schema(migrations.load_migrations(*FOLDERS), connection)
    assert schema.SCRIPT.read_text("utf-8") == dumped, "run tools/make_schema.py"
