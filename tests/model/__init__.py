"""DESIGN's state machine in plain Python, and random calls that compare the database with it."""
