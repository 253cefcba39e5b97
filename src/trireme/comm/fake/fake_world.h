// FakeWorld: one process plays one rank of a world whose other ranks are imagined; for dry runs and
// for measuring memory.
#pragma once

#include <memory>

#include "trireme/comm/world.h"

namespace trireme::comm {

// Every other rank is taken to hold the same data as this one: a sum adds it to itself size
// times in the canonical tree, avg and max leave it, a gather repeats the own slice (cut, or padded with zeros, where slices
// differ in size), an all-to-all repeats the slice meant for itself, a receive brings zeros. Nothing waits.
std::unique_ptr<World> make_fake_world(int rank, int size);

}  // namespace trireme::comm
