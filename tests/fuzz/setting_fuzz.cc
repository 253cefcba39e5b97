// Lines of section.key=value, as --set takes them.
#include <algorithm>

#include "tests/fuzz/target.h"
#include "trireme/config/resolve/resolve.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  config::Job job;
  std::string_view rest = fuzz::text_of(data, size);
  for (int line = 0; line < 4 && !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    fuzz::takes([&] { config::apply_set(job, rest.substr(0, end)); });
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::expect(config::parse_job(config::print_yaml(job), "f") == job, "prints another job");
  for (const int world : {1, 8}) fuzz::takes([&] { config::resolve(job, world, {.vocab = 256}); });
  return 0;
}
