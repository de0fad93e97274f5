"""Native code for the virtual GPU: lowers TTIR to LLVM IR, one program's tile at a time, with checks inlined.

`harness.engines.virtual.machine` stays the definition of a launch's results and events.  Native code proves a launch
clean while it executes it: no access out of bounds, no cell that two programs share in a conflicting way.  If a check
fails, it bails out: memory is restored, and the machine executes the launch and reports its events.
"""
