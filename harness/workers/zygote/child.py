"""The main function of a worker process: it reads requests from its socket, runs them and sends the answers."""

import faulthandler
import os
import socket
import sys
import tempfile
import traceback
from dataclasses import replace
from time import monotonic, perf_counter
from typing import TextIO, cast

from harness import wire
from harness.errors import ReplayError, WorkerError, disk_problem
from harness.execution import flight_recorder
from harness.execution.engine import AssemblingEngine
from harness.model.case import IN_CHILDREN
from harness.model.op import Op
from harness.model.paired_run import RunRequest, assembly_of, case_of
from harness.model.run import Faulted, OutOfMemory, Run
from harness.workers.protocol import COST, REQUEST_TYPES, ChildError, FaultKind, Frame, FrameKind, Inbox, kind_of, send
from harness.workers.supervision import confinement, linux, memory_limit
from harness.workers.zygote import startup
from harness.workers.zygote.case_children import run_in_child, run_one
from harness.workers.zygote.loading import Loaded

PIECE_BYTES = 65536


def main(fds: tuple[int, ...]) -> int:
    """Serve requests until the stream ends.  Runs in a process just forked; returns its exit status."""
    stream_fd, log_fd, recorder_fd = fds
    os.setsid()  # the leader of a group, so that everything it starts can be killed with it
    _print_to(log_fd)
    flight_recorder.attach(recorder_fd)
    with socket.socket(fileno=stream_fd) as stream:
        match startup.state.loaded:
            case None:
                _send_fault(stream, ChildError(kind=FaultKind.WORKER, message="the fork server has loaded nothing"))
            case ChildError() as fault:
                _send_fault(stream, fault)
            case Loaded() as loaded:
                try:
                    _serve(stream, loaded)
                except SystemExit as leaving:  # the library called sys.exit()
                    return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0


class _State:
    is_rebuilt = False
    """True after a case whose kernels were assembled in another way: the process keeps these builds."""


state = _State()


def _serve(stream: socket.socket, loaded: Loaded) -> None:
    linux.die_with(loaded.server)
    linux.offer_to_oom_killer()
    linux.keep_freed_memory()
    held_bytes = memory_limit.limit_growth(loaded.spec.memory_limit_bytes)
    if problem := loaded.engine.begin():
        _send_fault(stream, ChildError(kind=FaultKind.GPU, message=problem))
        return
    if folders := loaded.spec.confined_to:
        from harness.workers.zygote.compile_server import compile_elsewhere  # noqa: PLC0415 - it imports Triton

        compile_elsewhere()  # with a temporary folder to which the confined process cannot write
        os.environ["TMPDIR"], tempfile.tempdir = folders[0], None
        confinement.confine(folders)
    send(stream, FrameKind.HELLO, loaded.engine.traits.name.encode())
    inbox = Inbox()
    while piece := stream.recv(PIECE_BYTES):
        inbox.add(piece)
        while frame := inbox.take():
            started = perf_counter()
            match _answer_to(frame, loaded):
                case ChildError() as fault:
                    _send_fault(stream, fault)
                case Run() as run:
                    engine_s = perf_counter() - started
                    grown_bytes = max(0, linux.data_bytes() - held_bytes)
                    # Before the answer: the parent forgets the log when it asks for the next case.
                    sys.stdout.flush()
                    is_lost = isinstance(run.ending, OutOfMemory | Faulted) or state.is_rebuilt
                    cost = COST.pack(engine_s, grown_bytes, is_lost, monotonic())
                    send(stream, kind_of(run), cost + wire.reply_to_json(run).encode())


def _answer_to(frame: Frame, loaded: Loaded) -> Run | ChildError:
    """Run one request.  An error is returned only where the harness or the suite is at fault."""
    try:
        request = wire.request_from_json(frame.payload, loaded.spec.device, REQUEST_TYPES[frame.kind])
    except ReplayError as error:
        return ChildError(kind=FaultKind.WORKER, message=f"a worker was sent a case that it cannot read: {error}")
    case = case_of(request)
    op = loaded.ops.get(case.op)
    if op is None:
        known = ", ".join(loaded.ops) or "none at all"
        return ChildError(kind=FaultKind.SUITE, message=f"no suite declares the op {case.op!r}; known: {known}")
    limit = loaded.spec.memory_limit_bytes
    try:
        run = _run(loaded, op, request)
    except Exception as error:  # noqa: BLE001 - the process's own boundary: the parent replaces this child
        memory_limit.lift_limit()  # to describe the error takes memory, too
        if memory_limit.is_out_of_memory(error):
            message = f"{type(error).__name__}: {error}"
            return Run(
                case=case, engine=loaded.engine.traits.name, ending=OutOfMemory(limit_bytes=limit, message=message)
            )
        if problem := disk_problem(error):
            return ChildError(kind=FaultKind.DISK, message=problem)
        return ChildError(kind=FaultKind.WORKER, message=f"the engine failed on {case}:\n{traceback.format_exc()}")
    ending = memory_limit.reclassified(run.ending, limit)
    return run if ending is run.ending else replace(run, ending=ending)


def _run(loaded: Loaded, op: Op, request: RunRequest) -> Run:
    engine = loaded.engine
    if (assembly := assembly_of(request)) is not None:
        if not isinstance(engine, AssemblingEngine):
            raise WorkerError(f"the {engine.traits} engine cannot assemble kernels in another way")
        state.is_rebuilt = True
        engine.assemble(assembly)
    with flight_recorder.running(str(case_of(request))):
        if case_of(request).context in IN_CHILDREN:
            return run_in_child(loaded, request, lambda: run_one(loaded, op, request))
        return run_one(loaded, op, request)


def _send_fault(stream: socket.socket, fault: ChildError) -> None:
    sys.stdout.flush()
    send(stream, FrameKind.FAULT, wire.to_json(fault).encode())


def _print_to(log_fd: int) -> None:
    """Send all output to the parent's log: also native code's, and the stack that faulthandler prints at a crash."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log_fd, stream.fileno())
        cast("TextIO", stream).reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    os.close(log_fd)
    faulthandler.enable(file=2)
    faulthandler.register(linux.STACK_SIGNAL, file=2, all_threads=True)
