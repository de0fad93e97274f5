"""The seam to PyTorch Inductor: the file with its private names.  `dynamo_seam` has those of TorchDynamo.

Dynamo and AOTAutograd see the tensors of the virtual GPU as they are, on the CPU.  Only the last step, Inductor's own,
gets each graph as one of CUDA tensors.  So every decision that Inductor takes from the device is the emulated device's.
Its own code loads and launches what it generates.  Replaced are the clocks by which it tunes, the allocator of
CUDA memory, and the place where it puts its kernels' files.

`tests/engines/torch/inductor/test_inductor_seam.py` fails when a release of torch moves a name.
"""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import fx

from harness.engines.torch.cpu_tensors import CpuTensors
from harness.engines.torch.inductor.dynamo_seam import CPU, GPU, FakeDevices, keep_new_fakes_on_cpu, move_to_cpu
from harness.engines.torch.inductor.inductor_emulation import RUN, ConfigChoice
from harness.errors import CannotExecute
from harness.model.verdict import ORIGIN
from harness.patches import PATCHES

# Typed as `Any`: these modules are private, and their types tell little.
native: Any = import_module("torch._C")
dynamo: Any = import_module("torch._dynamo")
dynamo_counters: Any = import_module("torch._dynamo.utils").counters
dynamo_errors: Any = import_module("torch._dynamo.exc")
functorch_config: Any = import_module("torch._functorch.config")
inductor: Any = import_module("torch._inductor")
config: Any = import_module("torch._inductor.config")
code_cache: Any = import_module("torch._inductor.codecache")
async_compile: Any = import_module("torch._inductor.async_compile")
select_algorithm: Any = import_module("torch._inductor.select_algorithm")
heuristics: Any = import_module("torch._inductor.runtime.triton_heuristics")
triton_codegen: Any = import_module("torch._inductor.codegen.triton")
compiler: Any = import_module("torch._inductor.compile_fx")
flex_attention: Any = import_module("torch.nn.attention.flex_attention")
FakeTensor: Any = import_module("torch._subclasses.fake_tensor").FakeTensor
FakeTensorConverter: Any = import_module("torch._subclasses.fake_tensor").FakeTensorConverter
guards: Any = import_module("torch._C._dynamo.guards")
triton_helpers: Any = import_module("torch._inductor.runtime.triton_helpers")
map_aggregate: Any = import_module("torch.fx.node").map_aggregate
make_boxed_func: Any = import_module("torch._functorch.aot_autograd").make_boxed_func

OPTIONS = {
    "compile_threads": 1,
    "use_static_triton_launcher": False,
    "benchmark_epilogue_fusion": False,
    "coordinate_descent_tuning": False,
    "fx_graph_cache": False,
    "bundle_triton_into_fx_graph_cache": False,
    "autotune_local_cache": False,
    "max_autotune_gemm_backends": "TRITON",
    "triton.cudagraphs": False,
    "triton.autotune_at_compile_time": False,
}
"""Options of Inductor on the virtual GPU.

Its caches are off because a case's choice of configs is no part of their keys.  Of products it generates templates
alone, because no library of the GPU's vendor is there.
"""
InductorError: Any = import_module("torch._inductor.exc").InductorError
WRAPPERS = (dynamo_errors.BackendCompilerFailed, InductorError)
"""The errors in which Dynamo and Inductor wrap others."""
OTHER_STRIDES = re.compile(r"expected size .*?Error in op: torch\.ops\.([\w.]+)", re.DOTALL)
"""The error of a wrapper if one of torch's own operators returns another layout than Inductor expects on CUDA."""
CHOICES = 5
"""The place of the choices among the arguments of `do_autotuning`."""
TEMPLATE = "triton_tem_"
"""How the names of kernels begin that are instances of a template."""
USER_CODE = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]+)')
OPERATOR = re.compile(r"extern_kernels\.(\w+)\(|torch\.ops\.((?:aten|prims)\.\w+)[\w.]*\(")
"""A call of one of torch's own operators in a generated wrapper."""


class EmulatedInductor:
    """Inductor for the emulated device, installed until `PATCHES` are undone."""

    def __init__(self, choice: ConfigChoice) -> None:
        self._choice = choice
        self.eager = Counter[str]()
        """Calls of torch's own operators and graph breaks in the program compiled last, counted."""
        self.on_uncompiled: Callable[[str], None] | None = None
        """Called with the reason for a backward pass that torch's own operators compute; without it, this raises."""
        self._on_gpu = _GraphsOnGpu()
        self._is_warming_up = False
        self._user_code: dict[str, str] = {}
        """Comments for the file of a kernel, by its name."""
        self._selected: list[tuple[str, int, int]] = []
        """Text, index and number of the templates that were chosen for the program under compilation, in order."""
        self._templates: dict[str, tuple[str, int, int]] = {}
        """The template of a kernel, by its name: text, index and number."""

    def install(self) -> None:
        """Replace Inductor's benchmarks, its allocator of CUDA memory, and the loader of its kernels."""
        _replace(triton_helpers, {"set_driver_to_gpu": lambda: None}, "the driver of the emulated GPU is active")
        _replace(guards, {"_empty_strided_cuda": _empty_strided}, "it allocates CUDA memory")
        self._on_gpu.install()
        self._choose_configs()
        self._choose_templates()
        self._keep_user_code()
        _let_flex_attention_train()
        _match_patterns_on_cpu()

    def use_options_everywhere(self) -> None:
        """Use the options of the virtual GPU in all of this process from now on: a generated file sets none."""
        config.patch(OPTIONS).__enter__()

    def compiled(self, program: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the program as `torch.compile` does with these arguments of it."""
        mode, dynamic = options.get("mode"), options.get("dynamic")
        patches = inductor.list_mode_options(mode, dynamic) if mode else {}

        def backend(graph: Any, inputs: Sequence[Any]) -> Any:
            return self.compile(graph, inputs, {"config_patches": patches})

        return torch.compile(program, backend=backend, dynamic=dynamic)

    def compile(self, graph: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Return a graph of Dynamo as Inductor's `compile_fx` does with these options of it.

        Raises:
            CannotExecute: Inductor fails, and the caller of `torch.compile` is not to see it.
        """
        move_to_cpu(graph)
        patches = {**(options.get("config_patches") or {}), **OPTIONS}
        try:
            with functorch_config.patch(enable_autograd_cache=False):  # as with `OPTIONS`
                return compiler.compile_fx(
                    graph, inputs, inner_compile=self._compile, **{**options, "config_patches": patches}
                )
        except InductorError as error:
            if self.on_uncompiled is None:
                raise
            raise CannotExecute(_reason(error)) from error

    def call(self, compiled: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a program that `compiled` returned.  TorchDynamo sees the tensors of the virtual GPU as they are.

        Raises:
            CannotExecute: the program cannot be compiled in this process.
        """
        with native.DisableTorchFunction():
            try:
                result = compiled(*args, **kwargs)
            except WRAPPERS as error:
                raise _cause(error) from error
        breaks = dynamo_counters["graph_break"]
        self.eager.update({f"a graph break ({str(why).splitlines()[0]})": count for why, count in breaks.items()})
        breaks.clear()
        return result

    def is_followed(self) -> bool:
        """Return True if a mode follows torch's operators one by one: Dynamo compiles nothing then."""
        return native._len_torch_dispatch_stack() > 0  # noqa: SLF001 - as above

    def warm_up(self) -> None:
        """Compile a small program, forward and backward, without a launch: the first one takes seconds longer."""

        def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x @ y, -1)

        self._is_warming_up = True
        try:
            with contextlib.suppress(_NotLaunched):
                example = torch.ones(8, 8, requires_grad=True)
                self.call(self.compiled(program, {}), (example, example), {})
        finally:
            self._is_warming_up = False
        self.forget()

    def forget(self) -> None:
        """Forget what was compiled before, and its counts."""
        dynamo.reset()
        code_cache.PyCodeCache.cache_clear()
        dynamo_counters.clear()
        self.eager = Counter[str]()
        self._user_code.clear()
        self._selected.clear()
        self._templates.clear()

    def _compile(self, graph: Any, inputs: Sequence[Any], **options: Any) -> Any:
        """Hand one graph of aten operators to Inductor as a graph of CUDA tensors."""
        self._user_code.clear()
        unchanged = fx.GraphModule(graph, deepcopy(graph.graph)) if options.get("is_backward") else None
        try:
            with native.DisableTorchFunction(), self._on_gpu.during(graph, inputs):
                compiled = compiler.compile_fx_inner(graph, inputs, **options)
        except InductorError as error:
            if self.on_uncompiled is None or unchanged is None:
                raise
            self.on_uncompiled(_reason(error))  # the forward pass has run: only this pass can run otherwise
            return make_boxed_func(unchanged)
        run = getattr(compiled, "current_callable", None)
        if run is None:  # a graph without operators
            return compiled
        self.eager.update(_operators_called(compiled.source_code))

        def run_on_virtual_gpu(inputs: Any) -> Any:
            if self._is_warming_up:
                raise _NotLaunched
            with native._EnableTorchFunction(), config.patch(OPTIONS):  # noqa: SLF001 - as above
                try:
                    return run(inputs)
                except AssertionError as error:
                    if (operator := OTHER_STRIDES.search(str(error))) is not None:
                        raise CannotExecute(f"{operator[1]}, whose result has other strides on the CPU,") from error
                    raise

        compiled.current_callable = run_on_virtual_gpu
        return compiled

    def _choose_configs(self) -> None:
        """Let each kernel take the config that the case names, in the place of the fastest one."""
        tuner = heuristics.CachingAutotuner
        original = tuner.run
        emulated = self

        def run(self: Any, *args: Any, stream: Any, benchmark_run: bool = False, **kwargs: Any) -> Any:
            if not self.launchers:
                self.precompile()
            launchers = self.__dict__.setdefault("_harness_launchers", tuple(self.launchers))
            name = self.fn.__name__
            index = emulated._choice.requested.get(name, 0) % len(launchers)
            self.launchers, self._cached_launcher = [launchers[index]], None
            text, index, count = emulated._template_of(name) or (str(launchers[index].config), index, len(launchers))
            with emulated._choice.launching_as(text, index, count):
                return original(self, *args, stream=stream, benchmark_run=benchmark_run, **kwargs)

        _replace(tuner, {"run": run}, "it would launch the fastest config")

    def _choose_templates(self) -> None:
        """Let each product or attention take the template that the case names, in the place of the fastest one."""
        emulated = self

        def do_autotuning(_: Any, *args: Any, **__: Any) -> dict[Any, float]:
            choices = args[CHOICES]
            index = emulated._requested_template() % len(choices)
            text = str(getattr(choices[index], "description", choices[index]))
            emulated._selected.append((text, index, len(choices)))
            return {choice: 1.0 + (number != index) for number, choice in enumerate(choices)}

        why = "it would take the fastest template"
        _replace(select_algorithm.AlgorithmSelectorCache, {"do_autotuning": do_autotuning}, why)

    def _requested_template(self) -> int:
        """Return the index that the case requests for the template that is chosen next."""
        requested = self._choice.requested
        names = sorted((name for name in requested if name.startswith(TEMPLATE)), key=_number)
        return requested[names[len(self._selected)]] if len(self._selected) < len(names) else 0

    def _template_of(self, kernel: str) -> tuple[str, int, int] | None:
        """Return what was chosen for an instance of a template: they are chosen in the order of their numbers."""
        if not kernel.startswith(TEMPLATE) or self.on_uncompiled is not None:  # which begin anew in each program
            return None
        if kernel not in self._templates and len(self._templates) < len(self._selected):
            self._templates[kernel] = self._selected[len(self._templates)]
        return self._templates.get(kernel)

    def _keep_user_code(self) -> None:
        """Begin the file of each kernel with the user's lines that it was generated from, and name it after it."""
        scheduling = triton_codegen.TritonScheduling
        original = scheduling.define_kernel
        emulated = self

        def define_kernel(self: Any, src_code: str, node_schedule: Any, kernel: Any) -> str:
            name = original(self, src_code, node_schedule, kernel)
            emulated._user_code.setdefault(name, _origins(node_schedule))
            return name

        def load(kernel_name: str, source_code: str) -> Any:
            text = emulated._user_code.get(kernel_name, "") + source_code
            key, path = code_cache.write(text, "py")
            # Places of findings name the file: it is called like the kernel, in a folder of its own.
            file = Path(path).with_suffix("") / f"{kernel_name}.py"
            file.parent.mkdir(exist_ok=True)
            draft = file.with_suffix(f".{os.getpid()}")  # other processes may load the file
            draft.write_text(text, encoding="utf-8")
            draft.rename(file)
            return getattr(code_cache.PyCodeCache.load_by_key_path(key, str(file)), kernel_name)

        _replace(scheduling, {"define_kernel": define_kernel}, "the name of a kernel leads to the user's lines")
        for module in (code_cache, async_compile):
            why = "places of findings name the file, which is called like the kernel"
            _replace(module, {"_load_triton_kernel_from_source": load}, why)


def _replace(owner: Any, replacements: Mapping[str, object], why: str) -> None:
    PATCHES.replace_each(owner, replacements, why=why, releases=RUN)


class _NotLaunched(Exception):
    """A compiled program was called that is not to run."""


def _cause(error: BaseException) -> BaseException:
    """Return the error that the compilers have wrapped."""
    while isinstance(error, WRAPPERS) and isinstance(inner := getattr(error, "inner_exception", None), Exception):
        error = inner
    return error


def _reason(error: BaseException) -> str:
    """Return why Inductor fails, in one line."""
    cause = _cause(error)
    if isinstance(cause, CannotExecute):
        return cause.what
    lines = str(cause).strip().splitlines()
    return ": ".join(("Inductor", type(cause).__name__, *lines[:1]))


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)  # the modes of the virtual GPU poison it


def _let_flex_attention_train() -> None:
    """Let flex attention decide as for CUDA tensors."""
    original = flex_attention._apply_kernel_options  # noqa: SLF001 - as above

    def apply_kernel_options(*args: Any, **kwargs: Any) -> Any:
        options = original(*args, **kwargs)
        options["OUTPUT_LOGSUMEXP"] = options["OUTPUT_LOGSUMEXP"] or torch.is_grad_enabled()
        return options

    answers = {
        "_apply_kernel_options": apply_kernel_options,
        "_validate_device": lambda query, key, value: None,  # noqa: ARG005 - torch's own names
    }
    _replace(flex_attention, answers, "it reads the device before Inductor does, and finds the CPU")


def _match_patterns_on_cpu() -> None:
    """Trace the patterns of Inductor's passes on the CPU, also for a graph without a tensor among its inputs."""
    for name in ("pre_grad", "joint_graph", "post_grad", "freezing_patterns"):
        passes: Any = import_module(f"torch._inductor.fx_passes.{name}")
        _replace(passes, {"lazy_init": _of_cpu(passes.lazy_init)}, "a graph without inputs has no device")


def _of_cpu(lazy_init: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input_device=None: lazy_init(input_device or CPU)


class _GraphsOnGpu:
    """Turns the fake tensors and devices of graphs to CUDA, while they are compiled."""

    def __init__(self) -> None:
        self._turned: list[Any] | None = None
        """The fake tensors that are turned back at the end; None while nothing is compiled."""

    def install(self) -> None:
        """Turn what Inductor makes of real tensors, which are the constants of a program."""
        graphs_on_gpu = self
        converter, lowering = FakeTensorConverter, import_module("torch._inductor.graph").GraphLowering
        convert, get_attr = converter.from_real_tensor, lowering.get_attr

        def from_real_tensor(self: Any, *args: Any, **kwargs: Any) -> Any:
            tensor = convert(self, *args, **kwargs)
            graphs_on_gpu._turn(tensor)
            return tensor

        def get_attr_on_gpu(self: Any, *args: Any) -> Any:
            # The mode answers for the device.  Dynamo may have taken the caller's own modes off.
            with native._EnableTorchFunction(), CpuTensors():  # noqa: SLF001 - as above
                return get_attr(self, *args)

        _replace(converter, {"from_real_tensor": from_real_tensor}, "constants of a graph are on the emulated GPU")
        _replace(lowering, {"get_attr": get_attr_on_gpu}, "the mode answers for the device of a constant")
        keep_new_fakes_on_cpu()
        why = "a copy of a constant on the GPU is no other constant"
        _replace(lowering, {"constant_name": lambda self, name, device_override: name}, why)  # noqa: ARG005 - torch's names

    @contextmanager
    def during(self, graph: Any, inputs: Sequence[Any]) -> Generator[None]:
        """Turn a graph and its inputs; turn the tensors back at the end."""
        before, self._turned, FakeDevices.are_real = self._turned, [], True
        try:
            self._turn(inputs)
            for module in graph.modules():
                for node in module.graph.nodes if hasattr(module, "graph") else ():
                    for value in node.meta.values():
                        self._turn(value)
                    node.args = map_aggregate(node.args, _gpu_for_cpu)
                    node.kwargs = map_aggregate(node.kwargs, _gpu_for_cpu)
            yield
        finally:
            for tensor in self._turned:
                tensor.fake_device = CPU
            self._turned, FakeDevices.are_real = before, before is not None

    def _turn(self, value: Any) -> None:
        if self._turned is None:
            return
        if isinstance(value, FakeTensor):
            if value.fake_device == CPU:
                value.fake_device = GPU
                self._turned.append(value)
        elif isinstance(value, list | tuple):
            for item in value:
                self._turn(item)


def _gpu_for_cpu(value: Any) -> Any:
    return GPU if isinstance(value, torch.device) and value.type == "cpu" else value


def _operators_called(wrapper: str) -> Counter[str]:
    """Return the operators of torch that a generated wrapper calls."""
    return Counter(f"aten.{call[1]}" if call[1] else call[2] for call in OPERATOR.finditer(wrapper))


def _origins(node_schedule: Any) -> str:
    """Return comments with the operators and the lines of the user from which a kernel was generated."""
    if not isinstance(node_schedule, list | tuple):
        return ""
    nodes = import_module("torch._inductor.utils").aggregate_origins(node_schedule)
    lines = {_line_of(node) for node in nodes if node.op == "call_function"}
    return "".join(f"{ORIGIN}{line}\n" for line in sorted(lines))


def _line_of(node: Any) -> str:
    target = str(getattr(node.meta.get("original_aten"), "_overloadpacket", node.target))
    lines = USER_CODE.findall(str(node.meta.get("stack_trace") or ""))
    if not lines:
        return target
    file, line, text = lines[-1]
    return f"{Path(file).name}:{line}  {text.strip()}  ({target})"


def _number(kernel: str) -> int:
    number = kernel.rpartition("_")[2]
    return int(number) if number.isdigit() else 0
