"""Make the leaf measurements: python3 make_data.py FOLDER"""
import csv
import math
import random
import sys
from pathlib import Path

SPECIES = {  # length and width in mm, lobes, hairs per mm2, shade of green
    "alder": (70, 55, 3, 4.0, 0.45),
    "beech": (75, 50, 2, 8.0, 0.60),
    "birch": (55, 42, 5, 5.0, 0.65),
    "hazel": (85, 72, 4, 9.0, 0.50),
}


def leaf(species):
    length, width, lobes, hairs, green = SPECIES[species]
    size = random.gauss(1, 0.12)
    length, width = length * size * random.gauss(1, 0.06), width * size * random.gauss(1, 0.06)
    area = math.pi / 4 * length * width * random.gauss(0.92, 0.03)
    return [
        *(f"{value:.2f}" for value in (length, width, area)),
        max(0, round(random.gauss(lobes, 0.9))),
        f"{max(0, random.gauss(hairs, 1.3)):.2f}",
        f"{random.gauss(green, 0.06):.3f}",
        species,
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    random.seed(7)
    for name, count in {"train-1": 1000, "train-2": 1000, "train-3": 1000, "valid": 600}.items():
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["length", "width", "area", "lobes", "hairs", "green", "species"])
            writer.writerows(leaf(random.choice(list(SPECIES))) for _ in range(count))
