"""What a job's precision means: in which format its weights lie and its products are computed.

One row a precision; what runs, predicts and records jobs asks here. Formats are rows of `dtypes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError


@dataclass(frozen=True)
class Precision:
    """One way to run a job.

    Attributes:
        name: the word on the command line and in results.
        weights: format of weights, gradients and the optimiser's states; of activations too,
            where products are not cast.
        products: format that matrix products are computed in.
        autocasts: the framework casts what products read and write, operator by operator.
        why_no_training, why_no_generating: why no job of this kind runs so; empty if it does.
    """

    name: str
    weights: str
    products: str
    autocasts: bool = False
    why_no_training: str = ""
    why_no_generating: str = ""

    @property
    def allows_tf32(self) -> bool:
        """Whether matrix units may take FP32 operands cut short, in the framework's own switch."""
        return self.products == "tf32"

    @property
    def recorded_as(self) -> str:
        """The precision whose traces hold: TF32 dispatches the operators of FP32."""
        return self.weights if self.allows_tf32 else self.name

    @property
    def weights_torch(self) -> str:
        """PyTorch's name of the weights' format."""
        return DTYPES[self.weights].torch_name

    @property
    def autocast_torch(self) -> str | None:
        """PyTorch's name of what autocast casts to; None without autocast."""
        return DTYPES[self.products].torch_name if self.autocasts else None

    @property
    def weights_bytes(self) -> int:
        """Bytes of one weight."""
        return DTYPES[self.weights].itemsize_bytes

    @property
    def cast_bytes(self) -> int:
        """Bytes of the copy that autocast keeps of one weight; 0 without autocast."""
        return DTYPES[self.products].itemsize_bytes if self.autocasts else 0


_ROWS = (
    Precision("fp32", "fp32", "fp32"),
    Precision("tf32", "fp32", "tf32"),
    Precision("fp16", "fp16", "fp16",
              why_no_training="AdamW in fp16 without scaling diverges; train in amp_fp16 or bf16."),
    Precision("bf16", "bf16", "bf16"),
    Precision("amp_fp16", "fp32", "fp16", autocasts=True,
              why_no_generating="autocast is for training; {model} generates in fp16 or bf16."),
    Precision("amp_bf16", "fp32", "bf16", autocasts=True,
              why_no_generating="autocast is for training; {model} generates in fp16 or bf16."),
)  # fmt: skip
PRECISIONS: dict[str, Precision] = {row.name: row for row in _ROWS}
# Formats that some precision computes its products in.
PRODUCT_FORMATS = tuple(dict.fromkeys(row.products for row in _ROWS))


def precision(name: str) -> Precision:
    """The row of a precision.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name not in PRECISIONS:
        raise UsageError(f"unknown precision '{name}'; known: {', '.join(PRECISIONS)}.")
    return PRECISIONS[name]


def runs_on_matrix_units(dtype: str) -> bool:
    """Whether products of a format run on matrix units, where a chip has any for it."""
    return "tensor" in DTYPES[dtype].peak_path
