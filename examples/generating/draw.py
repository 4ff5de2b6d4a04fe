"""What makes rows: a scale and a seed, random streams, draws by weight, and Arrow tables of what was drawn.

Everything is drawn in integers, so that no platform's floating point can change a byte.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from examples.generating.model import Table
from ingest.errors import LakeError

Ints = npt.NDArray[np.int64]


def require_scale(scale: float, dataset: str, least: float, most: float, original: str) -> None:
    """Refuses a scale that is out of range; `original` is what the dataset has at 1.

    Raises
    ------
    LakeError
        The scale is outside the range, or no number.
    """
    if not least <= scale <= most:
        raise LakeError(
            f"scale {scale}",
            where=f"dataset {dataset}",
            expected=f"a number from {least} to {most:g}; 1 is {original}",
            action="choose a scale in that range",
        )


def require_seed(seed: int, dataset: str) -> None:
    """Refuses a seed that is none.

    Raises
    ------
    LakeError
        The seed is negative.
    """
    if seed < 0:
        raise LakeError(f"seed {seed}", where=f"dataset {dataset}", expected="0 or more", action="choose another seed")


def stream(seed: int, *step: int) -> np.random.Generator:
    """The random stream of one table or step: a child of ``seed``, independent of every other step's."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=step)))


def zipf(count: int, offset: int) -> Ints:
    """Integer weights of a power law: the first is heaviest, the n-th has ``1 / (n + offset)`` of it."""
    return 1_000_000_000 // (np.arange(count, dtype=np.int64) + 1 + offset)


def draw(rng: np.random.Generator, weights: Ints, count: int) -> Ints:
    """``count`` indexes into ``weights``, each as likely as its weight."""
    ends = np.cumsum(weights, dtype=np.int64)
    return np.searchsorted(ends, rng.integers(0, ends[-1], count), side="right").astype(np.int64)


def shuffled(rng: np.random.Generator, count: int) -> Ints:
    """0 to ``count`` - 1 in random order."""
    return rng.permutation(count).astype(np.int64)


def words(texts: tuple[str, ...] | list[str]) -> npt.NDArray[np.object_]:
    """Texts as an array, of which places can be taken."""
    return np.array(texts, dtype=object)


def epoch_s(table: pa.Table, column: str) -> Ints:
    """A column of times in seconds since 1970."""
    micros: Ints = table[column].cast(pa.int64()).to_numpy()
    return micros // 1_000_000


def _decimals(cents: Ints) -> pa.Array:
    """decimal(8,2) from whole cents, without a detour over floats or strings."""
    words = np.empty((len(cents), 2), dtype="<i8")
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(pa.decimal128(8, 2), len(cents), [None, pa.py_buffer(words.tobytes())])


def arrow_table(table: Table, **columns: object) -> pa.Table:
    """An Arrow table from columns: prices in cents, times in seconds since 1970, everything else as it is."""
    arrays = []
    for column, target in zip(table.columns, table.arrow_schema, strict=True):
        values = columns[column.name]
        if column.type == "decimal":
            assert isinstance(values, np.ndarray)
            arrays.append(_decimals(values))
        elif column.type in ("timestamp", "datetime"):
            assert isinstance(values, np.ndarray)
            arrays.append(pa.array(values * 1_000_000).cast(target.type))
        elif isinstance(values, pa.Array):
            arrays.append(values.cast(target.type))
        else:
            arrays.append(pa.array(values, type=target.type))
    return pa.Table.from_arrays(arrays, schema=table.arrow_schema)
