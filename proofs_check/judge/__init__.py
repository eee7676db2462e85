"""The judges: plain Python that shares no code with what is judged."""
