"""The one limit of time in tests that run a program: it ends what hangs, and measures nothing."""

# Far above what any takes on a machine that is slow and busy.
HANGS_S = 900
