"""Any command on an emulated GPU: each of its launches is checked, without a suite."""
