"""Texts with near-duplicates among them, drawn with a seed."""

import random

import pytest


def drawn(n, seed=1):
    """Texts of some templates with a few words changed; copies and texts of hardly a word are among them."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        template = rng.randrange(max(1, n // 4))
        words = [f"t{template}w{word}" for word in range(rng.choice([2, 60, 120]))]
        for _ in range(rng.randrange(4)):
            words[rng.randrange(len(words))] = f"x{rng.randrange(3)}"
        texts.append(" ".join(words))
    return texts


@pytest.fixture(scope="session")
def texts():
    return drawn(400)
