"""
onnxruntime without output, telemetry or threads of its own.

A caller that wants parallelism uses several threads, and a fork cannot hang.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class OnnxSession:
    """A graph in memory; any number of threads may run it at once."""

    def __init__(self, file: Path) -> None:
        """Load `file`. Raises ImportError without onnxruntime, RuntimeError for a graph that it cannot run."""
        # Read at the import: without it, a file of its telemetry stays in the folder for temporary files.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_mem_pattern = False  # it takes a fifth more memory, for a pattern of each length of text
        try:
            self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors have no other class in common
            raise RuntimeError(f"onnxruntime {onnxruntime.__version__} cannot load {file.name}: {error}") from error
        self.inputs: tuple[str, ...] = tuple(array.name for array in self._session.get_inputs())
        """Names of the input arrays."""

    def __call__(self, inputs: Mapping[str, Any]) -> Any:
        """Return the first output for arrays by their names. Raises RuntimeError."""
        try:
            return self._session.run(None, inputs)[0]
        except Exception as error:
            raise RuntimeError(f"onnxruntime failed: {error}") from error
