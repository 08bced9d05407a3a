"""Seconds of one forward pass by batch: thread CPU time, median of at least five, one thread."""

import time

import torch
from my_model import network

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def main() -> None:
    torch.set_num_threads(1)
    net = network().eval()
    print("workload.batch,time_s,group")
    for batch in BATCHES:
        x = torch.randn(batch, 1024)
        spent = []
        with torch.no_grad():
            net(x)
            for _ in range(max(5, int(0.6 / (0.003 * batch + 0.005)))):
                start = time.thread_time()
                net(x)
                spent.append(time.thread_time() - start)
        print(f"{batch},{sorted(spent)[len(spent) // 2]:.6g},batch{batch}")


if __name__ == "__main__":
    main()
