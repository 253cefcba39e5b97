"""torchrun with the PyTorch that there is."""

import no_libuv  # noqa: F401

from torch.distributed.run import main

main()
