"""The parts of a tuning run: where configs come from, who evaluates them, and the loop between the two."""
