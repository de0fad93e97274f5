"""Which cases are worth running: drawing them, running campaigns of them, making failing ones small."""
