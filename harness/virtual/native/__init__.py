"""Native code for the virtual GPU: TTIR to LLVM IR, one program's tile at a time, checks inlined.

`harness.virtual.machine` stays the definition of what a launch means and of what memory saw.  Native code proves a
launch clean while it executes it: no stray lane, no cell that two programs share in a way that matters.  At the first
doubt it stops, memory goes back to what it was, and the machine executes the launch and tells its events.
"""
