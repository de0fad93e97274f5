"""Operation handlers of an exact run: each floating-point number is computed a second time, without rounding.

Every handler first has its usual effect, on the real values.  Then the same handler computes the exact values: the
operation is *widened*, that is, all its floating-point types become float64, so nothing rounds.  Control flow, masks,
integers and addresses follow the real values.  The idea of a second, wider value is known from CPUs: C. Courbet,
"NSan: a floating-point numerical sanitizer", 2021; A. Sanchez-Stern et al., "Finding root causes of floating point
error" (Herbgrind), 2018.

What cannot be followed has the exact value NaN, and `ExactMemory.doubt` names it.  So it does for decisions: if a
comparison of exact values comes out otherwise, the kernel went a way that rounding alone chose.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from harness.engines.ttir.ir import Operation, TtirRegion, Type
from harness.engines.ttir.notation import parse_string
from harness.engines.virtual.machine import Handler, Machine, Value, Values
from harness.engines.virtual.memory.exact_accesses import ExactAccesses
from harness.engines.virtual.memory.pointers import Descriptor
from harness.engines.virtual.numbers.elements import Array, is_float
from harness.engines.virtual.numbers.exact_pairs import TORCH_TYPES, ExactPair, decided_otherwise, exact_constant
from harness.engines.virtual.operations import libdevice
from harness.engines.virtual.operations.inline_assembly import execute
from harness.engines.virtual.operations.libdevice_names import libdevice_name
from harness.engines.virtual.operations.product import scaled_factors
from harness.engines.virtual.operations.ptx import widened_text
from harness.engines.virtual.operations.random_rounding import (
    APPROXIMATE,
    CORRECTLY_ROUNDED,
    PRODUCTS,
    SUMS,
    combines_with_rounding,
)
from harness.engines.virtual.operations.rounding_growth import RoundingGrowth
from harness.errors import CannotExecute
from harness.execution.exact_comparison import NOISE
from harness.execution.exact_memory import UNKNOWN, ExactMemory

Frame = list[Value]
CONTROL = frozenset({"scf.for", "scf.if", "scf.while", "tt.call", "arith.select"})
"""Operations that only pass values on, so pairs pass through their usual handlers."""
ACCESSES = frozenset(
    {
        *("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store"),
        *("tt.descriptor_gather", "tt.descriptor_scatter"),
    }
)
UPDATES = frozenset({"tt.atomic_rmw", "tt.descriptor_reduce"})
FOLLOWED_UPDATES = frozenset({"fadd", "add", "exch"})
OPAQUE = frozenset({"tt.atomic_cas", "tt.atomic_poll", "tt.atomic_load", "tt.atomic_store"})
"""Operations whose floating-point results are unknown."""
STEPS = frozenset({"math.floor", "math.ceil", "math.roundeven", "math.round", "math.trunc"})
STEP_FUNCTIONS = frozenset({"floor", "ceil", "rint", "nearbyint", "round", "trunc", "remainder", "fmod"})
"""libdevice's functions that jump where their operand crosses a whole number."""
DECIDED, STEPPED = "a decision that rounding makes", "a step to a whole number that rounding takes"
MOST_ELEMENTS = 1 << 30
"""The most numbers that one exact run computes: some seconds.  Unlike a time, a count ends every run alike."""
ROUNDING_CONSTANTS = frozenset(scale * 2.0**digits for digits in (7, 10, 23, 52) for scale in (1.0, 1.5))
"""Numbers whose spacing is 1 in some type: added and subtracted again, they round to whole numbers."""
ROUNDING = CORRECTLY_ROUNDED | APPROXIMATE | SUMS | PRODUCTS.keys()
"""Operations whose float64 results are rounded too."""
DROP_NAN = frozenset({"arith.maxnumf", "arith.minnumf", "tt.clampf"})
"""Operations that would turn an unknown operand into a known result."""


def exact_handlers(
    handlers: Mapping[str, Handler], memory: ExactMemory, growth: RoundingGrowth | None = None
) -> dict[str, Handler]:
    """Return handlers that have the same effects, and also compute exact values.

    Args:
        handlers: the usual handlers.
        memory: the exact values of the case's tensors.
        growth: notes at which operations the rounding error grows, while each exact value is moved at random by a few
            hundred units of float64; None for neither.
    """
    run = _ExactRun(handlers, memory, growth)
    return {name: run.follow(name, handler) for name, handler in handlers.items()}


class _ExactRun:
    def __init__(self, handlers: Mapping[str, Handler], memory: ExactMemory, growth: RoundingGrowth | None) -> None:
        self._usual = handlers
        self._memory = memory
        self._growth = growth
        self._widened: dict[int, tuple[Operation, Operation]] = {}
        self._elements_left = MOST_ELEMENTS
        self._noise = np.random.default_rng(0)
        self._rules: Mapping[str, Callable[[Handler], Handler]] = {
            **dict.fromkeys(CONTROL, _unchanged),
            **dict.fromkeys(ACCESSES, self._access),
            **dict.fromkeys(UPDATES, self._update),
            **dict.fromkeys(OPAQUE, self._opaque),
            "arith.constant": self._constant,
            "tt.dot_scaled": self._scaled_product,
            "tt.elementwise_inline_asm": self._assembly,
            "tt.extern_elementwise": self._external,
            "tt.bitcast": self._bitcast,
            "arith.bitcast": self._bitcast,
            "tt.fp_to_fp": self._cast,
        }

    def follow(self, name: str, handler: Handler) -> Handler:
        """Return the exact handler of an operation."""
        return self._rules.get(name, self._compute)(handler)

    # --- arithmetic ---

    def _compute(self, handler: Handler) -> Handler:
        """An operation without an effect on memory: once as it is, once widened."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            operands = _pairs(operation, frame)
            has_float = any(is_float(kind.element) for kind in operation.result_types)
            if not operands and not has_float:
                return handler(machine, operation, frame)
            with machine.handled_by(self._usual):
                real = handler(machine, operation, _part(operation, frame, _real))
                if not operation.result_types:
                    return real
                if not operands and not operation.regions and operation.name not in {"arith.sitofp", "arith.uitofp"}:
                    return real  # nothing is rounded without a floating-point operand
                exact = handler(machine, self.widened(operation), _part(operation, frame, _exact))
            return self._joined(machine, operation, operands, (real, exact))

        return handle

    def _joined(
        self,
        machine: Machine,
        operation: Operation,
        operands: list[ExactPair],
        results: tuple[Value | Values | None, Value | Values | None],
    ) -> Value | Values | None:
        real, exact = results
        if not isinstance(real, tuple):
            return self._pair(machine, operation, operands, (real, exact, operation.result_types[0]))
        assert isinstance(exact, tuple)
        pairs = zip(real, exact, operation.result_types, strict=True)
        return tuple(self._pair(machine, operation, operands, pair) for pair in pairs)

    def _pair(
        self,
        machine: Machine,
        operation: Operation,
        operands: list[ExactPair],
        result: tuple[Value | Values | None, Value | Values | None, Type],
    ) -> Value:
        real, exact, kind = result
        assert isinstance(real, np.ndarray)
        assert isinstance(exact, np.ndarray)
        if not is_float(kind.element):
            if (operands or operation.regions) and decided_otherwise(real, exact, _like(real, operands)):
                self._doubt(machine, operation, DECIDED)
            return real
        if operation.name in STEPS and decided_otherwise(real, exact, _like(real, operands)):
            self._doubt(machine, operation, STEPPED)
        if operation.name in DROP_NAN or operation.regions:
            exact = _with_unknown(operation, operands, exact)
        return self._noted(machine, operation, operands, ExactPair(real, exact.astype(np.float64, copy=False)))

    def _noted(self, machine: Machine, operation: Operation, operands: list[ExactPair], pair: ExactPair) -> ExactPair:
        """Count a computed block, and note how far its rounding error grew.

        Raises:
            CannotExecute: the exact run has computed too much.
        """
        self._elements_left -= pair.exact.size
        if self._elements_left < 0:
            raise CannotExecute(f"an exact run of more than {MOST_ELEMENTS:,} numbers")
        if self._growth is None:
            return pair
        self._growth.note(machine.module, operation, operands, pair)
        if operation.name not in ROUNDING or (operation.regions and not combines_with_rounding(operation)):
            return pair
        noise = self._noise.uniform(-NOISE, NOISE, pair.exact.shape)
        return ExactPair(pair.real, pair.exact * (1 + noise))

    # --- what needs its own rule ---

    def _constant(self, handler: Handler) -> Handler:
        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value:
            real = handler(machine, operation, frame)
            assert isinstance(real, np.ndarray)
            element = operation.result_types[0].element
            if element not in TORCH_TYPES or element == "f64":
                return real
            if any(abs(float(number)) in ROUNDING_CONSTANTS for number in real.reshape(-1)):
                self._doubt(machine, operation, "a constant that rounds what is added to it")
            numbers = [exact_constant(float(number), element) for number in real.reshape(-1)]
            return ExactPair(real, np.array(numbers, np.float64).reshape(real.shape))

        return handle

    def _scaled_product(self, handler: Handler) -> Handler:
        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            real_frame = _part(operation, frame, _real)
            real = handler(machine, operation, real_frame)
            assert isinstance(real, np.ndarray)
            if any(kind.element in TORCH_TYPES for kind in operation.operand_types[:2]):
                return self._unknown_results(operation, real, machine)
            left, right, _ = scaled_factors(operation, real_frame)
            addend = _exact(frame[operation.operands[2]])
            assert isinstance(addend, np.ndarray)
            return ExactPair(real, np.matmul(left.astype(np.float64), right.astype(np.float64)) + addend)

        return handle

    def _assembly(self, handler: Handler) -> Handler:
        """PTX that computes in float32 alone runs a second time in float64."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            real_frame = _part(operation, frame, _real)
            wide = widened_text(parse_string(operation.keywords[0]))
            if wide is None or any(
                kind.element != "f32" for kind in (*operation.operand_types, *operation.result_types)
            ):
                return self._unknown_results(operation, handler(machine, operation, real_frame), machine)
            real = execute(machine, operation, real_frame)
            exact = execute(machine, self.widened(operation), _part(operation, frame, _exact), wide)
            if any((taken != exact.predicates[name]).any() for name, taken in real.predicates.items()):
                self._doubt(machine, operation, DECIDED)
            operands = _pairs(operation, frame)
            known = (_with_unknown(operation, operands, result) for result in exact.results)
            pairs = zip(real.results, known, strict=True)
            return tuple(self._noted(machine, operation, operands, ExactPair(*pair)) for pair in pairs)

        return handle

    def _external(self, handler: Handler) -> Handler:
        """A function of libdevice."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            operands = _pairs(operation, frame)
            real = handler(machine, operation, _part(operation, frame, _real))
            assert isinstance(real, np.ndarray)
            if not is_float(operation.result_types[0].element):
                exact = handler(machine, operation, _part(operation, frame, _narrowed))
                assert isinstance(exact, np.ndarray)
                if operands and decided_otherwise(real, exact, _like(real, operands)):
                    self._doubt(machine, operation, DECIDED)
                return real
            function = libdevice.exact_function(str(operation.attributes["symbol"]))
            if function is None:
                return self._unknown_results(operation, real, machine)
            exact = function(*(_as_float64(frame[slot]) for slot in operation.operands))
            name = libdevice_name(str(operation.attributes["symbol"])).removesuffix("f")
            if name in STEP_FUNCTIONS and decided_otherwise(real, exact, _like(real, operands)):
                self._doubt(machine, operation, STEPPED)
            return self._noted(machine, operation, operands, ExactPair(real, exact))

        return handle

    def _bitcast(self, handler: Handler) -> Handler:
        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            real = handler(machine, operation, _part(operation, frame, _real))
            source, target = operation.operand_types[0].element, operation.result_types[0].element
            if source == target:
                return frame[operation.operands[0]]
            return self._unknown_results(operation, real, machine)

        return handle

    def _cast(self, handler: Handler) -> Handler:
        """A conversion between floating-point types, with its rounding mode."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            operands = _pairs(operation, frame)
            real = handler(machine, operation, _part(operation, frame, _real))
            assert isinstance(real, np.ndarray)
            if operation.result_types[0].element not in TORCH_TYPES:
                return self._unknown_results(operation, real, machine)
            return self._noted(machine, operation, operands, ExactPair(real, operands[0].exact))

        return handle

    def _opaque(self, handler: Handler) -> Handler:
        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            real = handler(machine, operation, _part(operation, frame, _real))
            return self._unknown_results(operation, real, machine)

        return handle

    def _unknown_results(
        self, operation: Operation, real: Value | Values | None, machine: Machine
    ) -> Value | Values | None:
        """Give floating-point results unknown exact values, and name the operation."""
        values = real if isinstance(real, tuple) else (real,)
        kinds = operation.result_types
        if not any(is_float(kind.element) for kind in kinds):
            return real
        self._doubt(machine, operation, f"{operation.name} cannot be followed")
        pairs: list[Value] = []
        for value, kind in zip(values, kinds, strict=True):
            assert value is not None
            if is_float(kind.element) and isinstance(value, np.ndarray):
                pairs.append(ExactPair(value, np.full(value.shape, UNKNOWN)))
            else:
                pairs.append(value)
        return tuple(pairs) if isinstance(real, tuple) else pairs[0]

    # --- memory ---

    def _access(self, handler: Handler) -> Handler:
        """A load or store: once of the real values, once of the exact ones."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            element = _moved(operation).element
            real = handler(machine, operation, _part(operation, frame, _real))
            if element not in TORCH_TYPES:
                return self._unknown_results(operation, real, machine) if is_float(element) else real
            with self._accesses(machine, element):
                exact = handler(machine, operation, _part(operation, frame, _exact))
            if real is None:
                return None
            assert isinstance(real, np.ndarray)
            assert isinstance(exact, np.ndarray)
            return ExactPair(real, exact)

        return handle

    def _update(self, handler: Handler) -> Handler:
        """An atomic: first of the exact values, since the real update changes the bits beside them."""

        def handle(machine: Machine, operation: Operation, frame: Frame) -> Value | Values | None:
            element = _moved(operation).element
            is_followed = element in TORCH_TYPES and operation.keywords[0] in FOLLOWED_UPDATES
            if not is_followed:
                real = handler(machine, operation, _part(operation, frame, _real))
                return self._unknown_results(operation, real, machine)
            with self._accesses(machine, element) as accesses:
                exact = handler(machine, self.widened(operation), _part(operation, frame, _exact))
            real = handler(machine, operation, _part(operation, frame, _real))
            accesses.settle()
            if real is None:
                return None
            assert isinstance(real, np.ndarray)
            assert isinstance(exact, np.ndarray)
            return ExactPair(real, exact)

        return handle

    @contextmanager
    def _accesses(self, machine: Machine, element: str) -> Generator[ExactAccesses]:
        """Let loads and stores of a machine move exact values."""
        outer = machine.memory
        accesses = ExactAccesses(outer.arguments, self._memory, TORCH_TYPES[element])
        machine.memory = accesses
        try:
            yield accesses
        finally:
            machine.memory = outer

    # --- operations in float64 ---

    def widened(self, operation: Operation) -> Operation:
        """Return the operation with float64 in the place of every floating-point type."""
        known = self._widened.get(id(operation))
        if known is None:
            known = self._widened[id(operation)] = (operation, _widened(operation))  # keeps the id in use
        return known[1]

    def _doubt(self, machine: Machine, operation: Operation, what: str) -> None:
        source = machine.module.source(operation.location)
        self._memory.doubt(f"{what} ({source})" if source else what)


def _unchanged(handler: Handler) -> Handler:
    return handler


def _widened(operation: Operation) -> Operation:
    return replace(
        operation,
        operand_types=tuple(map(_wide, operation.operand_types)),
        result_types=tuple(map(_wide, operation.result_types)),
        regions=tuple(map(_widened_region, operation.regions)),
    )


def _wide(kind: Type) -> Type:
    return kind.with_element("f64") if is_float(kind.element) else kind


def _widened_region(region: TtirRegion) -> TtirRegion:
    return TtirRegion([replace(block, operations=list(map(_widened, block.operations))) for block in region.blocks])


def _moved(operation: Operation) -> Type:
    """Return the type of the block that a load, store or atomic moves."""
    if operation.name in {"tt.load", "tt.descriptor_load", "tt.descriptor_gather"}:
        return operation.result_types[0]
    if operation.name in {"tt.descriptor_store", "tt.descriptor_scatter", "tt.descriptor_reduce"}:
        return operation.operand_types[-1]
    return operation.operand_types[1]


def _part(operation: Operation, frame: Frame, part: Callable[[Value], Value]) -> Frame:
    """Return the frame with one half of each pair among the operands."""
    if operation.regions:  # which may use any value around them
        return [part(value) for value in frame]
    halves = list(frame)
    for slot in operation.operands:
        halves[slot] = part(frame[slot])
    return halves


def _real(value: Value) -> Value:
    return value.real if isinstance(value, ExactPair) else value


def _exact(value: Value) -> Value:
    if isinstance(value, ExactPair):
        return value.exact
    if isinstance(value, Descriptor):
        return replace(value, rounds_to_tf32=np.zeros_like(value.rounds_to_tf32))
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(np.float64)
    return value


def _narrowed(value: Value) -> Value:
    return value.exact.astype(value.real.dtype) if isinstance(value, ExactPair) else value


def _as_float64(value: Value) -> Array:
    exact = _exact(value)
    assert isinstance(exact, np.ndarray)
    return exact.astype(np.float64, copy=False)


def _pairs(operation: Operation, frame: Frame) -> list[ExactPair]:
    """Return the floating-point operands; those without an exact value of their own are exact as they are."""
    pairs: list[ExactPair] = []
    for slot, kind in zip(operation.operands, operation.operand_types, strict=False):
        value = frame[slot]
        if isinstance(value, ExactPair):
            pairs.append(value)
        elif isinstance(value, np.ndarray) and is_float(kind.element):
            pairs.append(ExactPair(value, value.astype(np.float64)))
    return pairs


def _like(result: Array, operands: Iterable[ExactPair]) -> list[ExactPair]:
    """Return the operands whose lanes are those of the result."""
    return [operand for operand in operands if operand.real.ndim == result.ndim]


def _with_unknown(operation: Operation, operands: list[ExactPair], exact: Array) -> Array:
    """Return the exact result, unknown where an operand is: a maximum would drop a NaN."""
    unknown = [np.isnan(operand.exact) & ~np.isnan(operand.real) for operand in operands]
    if not any(mask.any() for mask in unknown):
        return exact
    if operation.regions:
        return np.full(exact.shape, UNKNOWN)
    for mask in unknown:
        exact = np.where(mask, UNKNOWN, exact)
    return exact
