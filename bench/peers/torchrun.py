"""torchrun where PyTorch is built without libuv, as Debian's is: its stores do not look for it."""

import functools

import torch.distributed

torch.distributed.TCPStore = functools.partial(torch.distributed.TCPStore, use_libuv=False)

from torch.distributed.run import main  # noqa: E402

main()
