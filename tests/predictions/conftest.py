"""What the tests of Parquet and Arrow share: files as this package and others write them, and their stores."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import FileError


@dataclass(frozen=True)
class ArrowFiles:
    """One file at a time in a folder; forms are "parquet", "arrow" (an IPC file) and "stream" (an IPC stream)."""

    folder: Path

    def written(self, arrays, form):
        """The bytes that `write_parquet` or `write_arrow` makes."""
        from calibrant.predictions.files.arrow_write import write_arrow, write_parquet

        stream = io.BytesIO()
        (write_parquet if form == "parquet" else write_arrow)(arrays, stream)
        assert not stream.closed
        return stream.getvalue()

    def table_bytes(self, table, form, **options):
        """The bytes that the library makes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = io.BytesIO()
        if form == "parquet":
            pq.write_table(table, sink, **options)
            return sink.getvalue()
        rows = options.pop("row_group_size", None)
        new = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
        with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, max_chunksize=rows)
        return sink.getvalue()

    def opened(self, content, form, rename=None):
        """The store of a file with this content."""
        from calibrant.predictions.files.arrow import open_arrow, open_parquet

        path = self.folder / f"p.{'parquet' if form == 'parquet' else 'arrow'}"
        path.write_bytes(content)
        return (open_parquet if form == "parquet" else open_arrow)(path, rename)

    def of(self, table, form, **options):
        """The store of a table that the library wrote."""
        return self.opened(self.table_bytes(table, form, **options), form)

    def back(self, arrays, form):
        """The store of arrays that this package wrote."""
        return self.opened(self.written(arrays, form), form)

    def fixed(self, values, *sizes):
        """Fixed-size lists."""
        import pyarrow as pa

        array = pa.array(np.asarray(values).ravel())
        for size in sizes[::-1]:
            array = pa.FixedSizeListArray.from_arrays(array, size)
        return array

    def refused(self, act, *words):
        """What is done ends in a FileError that says these words."""
        with pytest.raises(FileError) as caught:
            act()
        for word in words:
            assert word in str(caught.value), caught.value


@pytest.fixture
def files(tmp_path):
    """Parquet and Arrow files in a folder of their own."""
    return ArrowFiles(tmp_path)
