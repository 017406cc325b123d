"""Chaos: workers and server are killed, stopped and cut off; then the books are checked.

python -m chaos --seed 7 --seconds 120
"""
