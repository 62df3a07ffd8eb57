"""Samples that are kept in a file when it is not there yet; the best checkpoint is loaded at the end."""

import os
import json
import argparse
import random
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch_size", default=8, type=int)
    p.add_argument("--epochs", default=2, type=int)
    p.add_argument("--gpu", default=0, type=int)
    p.add_argument("--out", default="out")
    return p.parse_args()


class Data(Dataset):
    def __init__(self, n, train=True):
        rng = np.random.RandomState(0 if train else 1)
        self.x = rng.randn(n, 4).astype("float64")
        self.y = (self.x.sum(1) > 0).astype("int64")
        if not os.path.exists("cache"):
            os.mkdir("cache")
        path = "cache/%d.pt" % n
        if not os.path.exists(path):
            torch.save(torch.from_numpy(self.x), path)
        self.cached = torch.load(path)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.cached[i], self.y[i]


def main():
    args = get_args()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    torch.set_default_dtype(torch.float64)
    device = torch.device("cuda:%d" % args.gpu if torch.cuda.is_available() else "cpu")
    tr = DataLoader(Data(40), args.batch_size, shuffle=True)
    va = DataLoader(Data(20, False), args.batch_size)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to(device)
    opt = torch.optim.Adam(net.parameters())
    if not os.path.isdir(args.out):
        os.makedirs(args.out)
    log = open(os.path.join(args.out, "log.txt"), "w")
    best = 1e9
    for ep in range(args.epochs):
        ls = []
        for x, y in tr:
            x = x.to(device)
            y = y.to(device)
            l = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            l.backward()
            opt.step()
            ls.append(l.item())
        with torch.no_grad():
            vl = np.mean([nn.functional.cross_entropy(net(x.to(device)), y.to(device)).item() for x, y in va])
        log.write("%d %f %f\n" % (ep, np.mean(ls), vl))
        log.flush()
        print(ep, np.mean(ls), vl)
        if vl < best:
            best = vl
            torch.save(
                {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": ep}, os.path.join(args.out, "best.pth")
            )
    ck = torch.load(os.path.join(args.out, "best.pth"), map_location=device)
    net.load_state_dict(ck["net"])
    json.dump({"best": float(best)}, open(os.path.join(args.out, "r.json"), "w"))
    print(json.load(open(os.path.join(args.out, "r.json"))))


if __name__ == "__main__":
    main()
