"""What a kernel takes of the GPU that it is compiled for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the whole compiler pipeline says one kernel takes on one architecture."""

    registers_per_thread: int
    spill_bytes: int
    """Local memory a thread, spills and stack."""
    shared_bytes: int
    tensor_memory_columns: int
    scratch_bytes_per_program: int
    threads: int
    failure: str = ""
    """What the compiler said, where it gave up; the figures are 0 then."""

    @classmethod
    def failed(cls, failure: str) -> "Resources":
        """Where the compiler gave up."""
        return cls(
            registers_per_thread=0,
            spill_bytes=0,
            shared_bytes=0,
            tensor_memory_columns=0,
            scratch_bytes_per_program=0,
            threads=0,
            failure=failure,
        )
