"""Online learning on arrays: pure functions that can be used alone."""
