#!/usr/bin/env python3
"""A PyTorch loop whose knee follows from its arguments, without a GPU and with few CPUs: samples and steps mostly sleep.

usage: waiting.py [--sample-ms MS] [--step-ms MS] [--batch N] [--workers N]

A worker needs sample-ms for each sample, a step takes step-ms and a little more: N * sample-ms / step-ms workers keep up.
"""
import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self, seconds):
        self.seconds, self.ready = seconds, torch.ones(64)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        if self.seconds:
            time.sleep(self.seconds)
        return self.ready


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("--sample-ms", type=float, default=4)
    p.add_argument("--step-ms", type=float, default=15)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--workers", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in DataLoader(Samples(a.sample_ms / 1e3), batch_size=a.batch, num_workers=a.workers):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        time.sleep(a.step_ms / 1e3)


if __name__ == "__main__":
    main()
