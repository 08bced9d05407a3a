"""Folders of parts of one study as one folder: what the tasks of an array job left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.experiments.studies.runner import PreparedStudy, about, stored_plan
from slipstick.experiments.studies.store import Store, create, load


def merge(
    made: PreparedStudy, parts: Sequence[Path], folder: Path, progress: Callable[[int, int], None] | None = None
) -> Store:
    """Copy every verified part of `parts` into `folder`; parts that are there already stay.

    Raises InputError where a folder holds another study or ratios to other times, a part is damaged, or two folders
    hold the same part with other content.
    """
    stores = [load(path, made.fingerprint) for path in parts]
    if not stores:
        raise InputError("nothing to merge: name the folders of the parts")
    first = stores[0]
    for other in stores[1:]:
        if other.today != first.today:
            raise InputError(
                f"{other.folder}: its ratios are to other times than those of {first.folder}: a measured study is "
                f"run in one folder"
            )
    target = create(folder, made.fingerprint, about(made.relative_to(first.today) if first.today else made))
    stored_plan(made, target)
    with target.locked():
        there = target.verify()
        for index, store in enumerate(stores):
            for number, path in store.verify().items():
                if number not in there:
                    there[number] = target.adopt(path)
                elif there[number].name != path.name:
                    raise InputError(
                        f"{path}: differs from {there[number]}: two machines computed part {number} differently"
                    )
            if progress:
                progress(index + 1, len(stores))
    return target
