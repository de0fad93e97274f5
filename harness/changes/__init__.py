"""Changes of source: which definitions an op reaches, by Python's syntax alone, and which of them two trees differ in.

Nothing is imported and nothing runs.  `op_digests` has the answers; what cannot be resolved counts whole.
"""
