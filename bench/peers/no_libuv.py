"""Imported first: PyTorch's stores look for libuv, which Debian's PyTorch is built without."""

import functools
import sys

import torch.distributed

store = functools.partial(torch.distributed.TCPStore, use_libuv=False)
for module in ("torch.distributed", "torch.distributed.rendezvous"):  # the second is hidden by a function of its name
    sys.modules[module].TCPStore = store
