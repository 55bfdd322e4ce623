"""What the exit code says. docs/exit-codes.md explains them to users."""

PASSED = 0
FOUND = 1  # findings at or above --fail-on
UNUSABLE = 2  # wrong usage, broken rules, unreadable input, a fault of gpudoctor
NOT_CHECKED = 3  # nothing at or above --fail-on, but something essential could not be checked
INTERRUPTED = 130
PIPE_CLOSED = 141
