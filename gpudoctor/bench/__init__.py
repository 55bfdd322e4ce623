"""Active tests: plans workers, runs them within a deadline, and turns what they say into judged facts."""
