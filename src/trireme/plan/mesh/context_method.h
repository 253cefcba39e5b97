// The ways in which context-parallel ranks attend.
#pragma once

namespace trireme::mesh {

// How queries meet the keys of other ranks.
enum class ContextMethod {
  kRing,       // keys and values travel from rank to rank (Liu et al. 2023)
  kAllGather,  // keys and values are gathered, their gradients reduce-scattered (Llama 3)
  kUlysses,  // heads against tokens: a rank attends with some heads over all tokens (Jacobs et al. 2023)
  kHierarchical,  // Ulysses within neighbours, a ring over these (Fang & Zhao 2024)
};

}  // namespace trireme::mesh
