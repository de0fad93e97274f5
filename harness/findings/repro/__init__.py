"""Single-file reproducers: a finding as one Python program that a maintainer can run, read and bisect with.

`recording_engine` runs the case in a child and records it as pieces of a program (`pieces`).  Pieces are the op's call
(`op_call`) and every launch (`launch_call`), written with `sources` and `tensors`.  The parent assembles files from
the pieces (`program_writer`, `code_layout`), has the kernel reduced (`reduction_check`), and confirms each file in a
fresh process (`build`).
"""
