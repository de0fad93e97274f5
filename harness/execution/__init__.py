"""The execution of a case, equal for every engine: inputs, calls of the library, references, comparison.

Everything but `paired_run_policy` and `flight_recorder` runs in child processes only.
"""
