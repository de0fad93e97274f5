"""Single-file reproducers: a finding as one Python program that a maintainer can run, read and bisect with.

`recording` runs the case in a child and writes it down as pieces of a program (`record`): the op's call (`entry`) and
every launch (`launch`), through `sources` and `tensors`.  The parent puts files together of them (`writing`, `layout`),
has the kernel reduced, and keeps what a fresh process confirms (`making`).
"""
