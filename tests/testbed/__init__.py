"""Real parts for tests: genuine programs on fake hardware, in scratch folders that leave nothing behind."""
