"""python3 make_data.py FOLDER: petals and sepals of three kinds of flowers, as two CSV files."""

import csv
import random
import sys
from pathlib import Path

MEANS = {"low": (5.0, 3.4, 1.5, 0.2), "middle": (5.9, 2.8, 4.3, 1.3), "high": (6.6, 3.0, 5.6, 2.0)}

random.seed(3)
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, count in (("train", 1500), ("test", 300)):
    with (folder / f"{name}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sepal_length", "sepal_width", "petal_length", "petal_width", "kind"])
        for _ in range(count):
            kind = random.choice(list(MEANS))
            table.writerow([*(f"{random.gauss(mean, 0.3):.2f}" for mean in MEANS[kind]), kind])
