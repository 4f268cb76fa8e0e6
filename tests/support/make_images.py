#!/usr/bin/env python3
"""Files like MNIST's, of images whose label is where they are bright.

  make_images.py FOLDER TRAIN TEST      numbers of images
"""
import os
import random
import struct
import sys

random.seed(3)
folder, *counts = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
for part, count in zip(("train", "t10k"), map(int, counts)):
    labels = bytes(random.randrange(10) for _ in range(count))
    pixels = bytearray()
    for label in labels:
        image = bytearray(random.randrange(40) for _ in range(784))
        image[label * 78:label * 78 + 60] = bytes([255]) * 60
        pixels += image
    with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">4I", 2051, count, 28, 28) + pixels)
    with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">2I", 2049, count) + labels)
