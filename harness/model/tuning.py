"""What autotuners do in a run in which they tune, as the seam to Triton records it.

In a case's own run no autotuner tunes: the case chooses the configs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.ending import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedConfig:
    """A config that an autotuner benchmarked."""

    config: str
    """As Triton prints it: `BT: 64, num_warps: 4`."""
    error: str = ""
    """The class of the exception that the autotuner caught; empty if the config ran."""
    message: str = ""
    """The line of the exception's text that names the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerCall:
    """One call of an autotuned kernel."""

    kernel: str
    key: Mapping[str, str]
    """The values of the arguments that the autotuner's key names, as text."""
    types: tuple[str, ...]
    """The element types of the tensors, which are part of the key."""
    configs: int
    """How many configs the autotuner has before pruning."""
    tried: tuple[TriedConfig, ...] = ()
    """In the order of the benchmarks; empty if the choice came from the autotuner's cache.

    Of many configs some are not benchmarked here, to save time.
    """
    fastest: str = ""
    """The config that works and was the fastest in the benchmarks; empty if there were none."""
    chosen: str = ""
    """The config that the autotuner chose; empty if it raised before."""
    overridden: tuple[str, ...] = ()
    """Parameters of the chosen config that the launch had another value of: `BLOCK: 16 in place of 32`."""
    changed: tuple[str, ...] = ()
    """Arguments whose contents differ from those after a call with the chosen config alone."""
    restores: tuple[str, ...] = ()
    """The arguments in `restore_value`."""
    resets: tuple[str, ...] = ()
    """The arguments in `reset_to_zero`."""
    thread: str = ""
    """The name of the thread that called."""

    @property
    def is_from_cache(self) -> bool:
        return self.configs > 1 and not self.tried


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRun:
    """A second run of the same case, in which every autotuner tunes and then chooses the config of the first run."""

    ending: Ending
    digests: Mapping[str, str]
    """The digest of each result's bytes, by name."""
    calls: tuple[TunerCall, ...]
    same_configs: bool
    """True if every launch had the config of the first run, so equal bits are to be expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySweep:
    """The keys of an autotuned kernel while one size of the op changes: an argument in them that decides nothing."""

    kernel: str
    argument: str
    dim: str
    sizes: tuple[int, ...]
    """The sizes that were tried, ascending."""
    tunings: int
    """How often the kernel is tuned in the sweep: the number of different keys."""
    needed: int
    """The same without the argument; if the code uses it, at least once for each code of the kernel."""
    is_unused: bool
    """True if the kernel's code does not name the argument.  Otherwise it has another value for each size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedRun:
    """A run in which a kernel has a config that the autotuner found in its cache."""

    ending: Ending
    wrong: tuple[str, ...]
    """Results that are wrong, or not stored whole."""
    events: tuple[str, ...]
    """Memory accesses of the kernel that no correct kernel makes: `Stray of dx (layernorm.py:431)`."""
    builds: tuple[str, ...]
    """The builds of the kernel, as `Launch.build`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEntry:
    """Two calls of a kernel that share an entry of its autotuner's cache, though they are not alike."""

    kernel: str
    key: Mapping[str, str]
    config: str
    """A config that the other case's call may have left in the cache."""
    other: str
    """What the other case has in place of this one's: `D=16`."""
    differing: tuple[str, ...]
    """The arguments that are not in the key and differ: `D: 16 there, 64 here`."""
    is_pruned: bool
    """True if the pruning of this case excludes the config."""
    there: ForcedRun
    """The other case with the config."""
    here: ForcedRun
    """This case with the config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCheck:
    """What the keys of a case's autotuners have too much, and too little."""

    kernels: tuple[str, ...]
    """The autotuned kernels whose keys were seen."""
    sweeps: tuple[KeySweep, ...] = ()
    shared: tuple[SharedEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedRun:
    """A second run of the same case, in which another thread calls the op while the first autotuner tunes."""

    kernel: str
    """The kernel that was being tuned; empty if none was."""
    other: str
    """What the other thread's call has in place of this case's: `T=96`."""
    ending: Ending
    other_ending: Ending | None
    """None if the other thread waits forever."""
    differing: tuple[str, ...]
    """Results of the case that differ from those alone."""
    other_differing: tuple[str, ...]
    """Results of the other call that differ from those alone."""
