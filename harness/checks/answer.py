"""The answer: a candidate, its reference, and how both are called; the text of a generated suite holds one.

No part of it needs torch, since the parent process writes and reads it.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.case import Scalar

CONTROL = "harness-check: "
"""How the notes begin by which a worker reports what it saw of a candidate."""
CHANCE = " by chance"
"""The end of a note on a few values, which may be so by chance."""
WORK = f"{CONTROL}work "
"""How the note begins on the arithmetic of torch's operators: JSON with their shares of the reference's."""
BACKWARD = f"{CONTROL}backward "
"""How notes on the backward pass begin."""
BACKWARD_WORK = f"{BACKWARD}work "
"""As `WORK`, of the backward pass."""
LEGAL = "legal"
"""The note on a case of which candidate and reference compute the outputs."""
REFUSED = "NotALegalCase"
"""The class of the exception for cases that the reference refuses itself."""
NO_BACKWARD = "NoBackward"
"""The class of the exception for a candidate whose outputs have no gradient."""


class OriginFault(StrEnum):
    """What is wrong with the origin of a candidate's outputs; a worker notes it."""

    COPIED = "copied"
    """A kernel stored what others had computed."""
    CHANGED = "changed"
    """Something else than a kernel stored last."""
    UNSEEN = "unseen"
    """The candidate ended that launches are watched."""
    KEPT = "kept"
    """Most of the output was there before any kernel stored to it."""
    EARLIER = "earlier"
    """The output was there before the call, and nothing stored to it since."""
    UNCOMPARED = "uncompared"
    """There is more memory than can be compared."""
    READ = "read"
    """Host code reads the numbers of a tensor."""
    ELSEWHERE = "elsewhere"
    """A launch or an operator gets values that come from neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """A function or class by the file or module that has it."""

    file: str
    """The absolute path of a Python file; empty if the module is imported by its name."""
    module: str
    """The module's name; empty if there is a file."""
    name: str
    """The name in it: `softmax`, `Layers.forward`."""

    def __str__(self) -> str:
        return f"{self.file or self.module}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentForm:
    """One argument of both functions: an input of the op, the size of a dim, or a value that never changes."""

    tensor: str = ""
    """The name of the input; empty for a number, a text or None."""
    element: str = ""
    """The element type that the function gets, as torch names it: `bool`, `uint8`; empty: that of the input."""
    dim: str = ""
    """The dim whose size it is; empty for a value that never changes."""
    value: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A candidate beside its reference."""

    candidate: CodePlace
    reference: CodePlace
    arguments: tuple[ArgumentForm, ...] = ()
    init_inputs: CodePlace | None = None
    """KernelBench's `get_init_inputs`; then candidate and reference are classes of modules, and it gives their
    arguments.  None for functions."""
    weights: tuple[tuple[str, str], ...] = ()
    """Inputs by which a case moves weights of both modules, each with the weight's name in the reference."""
    repeats: tuple[int, ...] = ()
    """As `TorchWork` notes them for sizes like the sample's: a legal case has no others."""
    mutated: tuple[str, ...] = ()
    """The inputs that the reference changes in place, so that the candidate may, too."""
    weights_seed: int = 0
    keeper: str = ""
    """The address to which a worker sends the outputs."""
    folder: str = ""
    """Where the referee finds them."""

    @property
    def is_model(self) -> bool:
        """True if candidate and reference are classes of `torch.nn.Module`."""
        return self.init_inputs is not None
