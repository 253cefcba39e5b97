#include "trireme/plan/mesh/zigzag.h"

#include "trireme/base/error.h"

namespace trireme::mesh {

std::int64_t zigzag_tokens(std::int64_t tokens, int ranks) {
  TRIREME_CHECK(tokens >= 0 && ranks >= 1, "{} tokens over {} ranks", tokens, ranks);
  const std::int64_t chunks = 2 * static_cast<std::int64_t>(ranks);
  if (ranks > 1 && tokens % chunks != 0)
    fail(ErrorKind::kUsage,
         "a sequence of {} tokens does not split over {} context-parallel ranks; it needs a "
         "multiple of 2 x {} = {}, "
         "such as {}, or another number of ranks",
         tokens, ranks, ranks, chunks, (tokens / chunks + 1) * chunks);
  return tokens / ranks;
}

std::array<std::int64_t, 2> zigzag_begins(std::int64_t tokens, int rank, int ranks) {
  const std::int64_t chunk = zigzag_tokens(tokens, ranks) / 2;
  TRIREME_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  return {rank * chunk, (2 * ranks - 1 - rank) * chunk};
}

std::vector<std::int64_t> zigzag_positions(std::int64_t tokens, int rank, int ranks) {
  const std::int64_t mine = zigzag_tokens(tokens, ranks);
  const auto [first, second] = zigzag_begins(tokens, rank, ranks);
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(mine));
  for (std::int64_t i = 0; i < mine; ++i)
    positions.push_back(i < mine / 2 ? first + i : second + i - mine / 2);
  return positions;
}

}  // namespace trireme::mesh
