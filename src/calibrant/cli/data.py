"""calibrant data: the data sets that experiments use, where they are, and how to get them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from calibrant.cli import options
from calibrant.cli.options import argument, option

EXAMPLES = """\
calibrant data list
calibrant data prepare cifar10 --folder ~/data
calibrant data where
"""
ACTIONS = ("list", "prepare", "where")


def command(
    action: Annotated[str, argument("list, prepare or where.", "ACTION")],
    name: Annotated[str | None, argument("The data set to prepare, or to list in full.", "NAME")] = None,
    folder: Annotated[
        str | None, option("--folder", "The folder of data sets.  [default: CALIBRANT_DATA]", "FOLDER")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """List data sets, or download one and verify it.

    `list` shows what is known and what is there, `list NAME` the licence, citation and checksums of one. `prepare NAME`
    downloads it from its official address, resumes what was interrupted, and verifies files that are there. `where`
    prints the folder.
    """
    from calibrant.cli.output import emit, progress_bar
    from calibrant.data.folder import VARIABLE, data_folder
    from calibrant.data.preparation import prepare
    from calibrant.errors import UsageError, check_choice

    check_choice("ACTION", action, ACTIONS)
    place = folder or os.environ.get(VARIABLE) or None
    if action == "where":
        emit(str(data_folder(place)))
        return
    if action == "list":
        emit(details(name) if name is not None else overview(Path(place) if place else None))
        return
    if name is None:
        raise UsageError("prepare", expected="a data set", got="nothing", hint="see calibrant data list")
    if place is None:
        hint = f"use --folder FOLDER, or export {VARIABLE}=FOLDER"
        raise UsageError("--folder", expected="a folder of data sets", got="nothing", hint=hint)
    with progress_bar(quiet) as bar:

        def show_bytes(done: int, total: int | None) -> None:
            if bar is not None:
                bar(f"downloading {name}", done, total or done)

        paths = prepare(name, Path(place), progress=show_bytes)
    if not quiet:
        emit("\n".join(f"{path}: verified" for path in paths) or f"{name}: nothing to prepare")


def overview(folder: Path | None) -> str:
    """One line a data set: whether it is there, its size and what it is."""
    from calibrant.data.catalogue import DATASETS
    from calibrant.data.preparation import present

    lines = []
    for dataset in DATASETS.values():
        if dataset.name == "digits":
            state = "built in"
        elif dataset.name == "cifar10c":
            there = folder is not None and (folder / "CIFAR-10-C" / "labels.npy").is_file()
            state = "ready" if there else "to copy"
        elif present(dataset, folder):
            state = "ready"
        else:
            state = "download" if dataset.sources else "to copy"
        lines.append(f"{dataset.name:28}{state:10}{dataset.size:>12}  {dataset.summary}")
    return "\n".join([*lines, "", "`calibrant data prepare NAME` downloads and verifies; `list NAME` shows details."])


def details(name: str) -> str:
    """Licence, citation, files and sources of a data set."""
    from calibrant.data.catalogue import dataset_named

    dataset = dataset_named(name)
    lines = [f"{dataset.name}: {dataset.summary}", f"licence: {dataset.licence}", f"citation: {dataset.citation}"]
    lines += [f"obtain: {dataset.obtain}"] if dataset.obtain else []
    for stored in dataset.files:
        lines.append(f"file: {stored.path}")
        lines += [f"  contents SHA-256 {stored.contents}"] if stored.contents else []
    for source in dataset.sources:
        lines += [f"source: {source.url} ({source.size:,} bytes)", f"  SHA-256 {source.sha256}"]
    return "\n".join(lines)
