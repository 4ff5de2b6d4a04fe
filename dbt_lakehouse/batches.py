"""Batches that `dbt retry` computes again: those of the same model that went well are in its table, and stay there."""

from __future__ import annotations

from dbt.contracts.graph.nodes import ModelNode
from dbt.task.run import MicrobatchModelRunner

_is_incremental = MicrobatchModelRunner._is_incremental


def adds_to_its_table(runner: MicrobatchModelRunner, model: ModelNode) -> bool:
    """Whether a batch is added to the model's table: as dbt has it, or other batches of the run before went well.

    dbt tells of those where it computes the others again. With `--full-refresh` these would make another table.
    """
    return model.previous_batch_results is not None or _is_incremental(runner, model)
