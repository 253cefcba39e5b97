// JOB.yaml: what is taken prints as itself and resolves, or does not, for worlds of any size.
#include "tests/fuzz/target.h"
#include "trireme/config/resolve/resolve.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::takes([&] {
    const config::Job job = config::parse_job(fuzz::text_of(data, size), "f");
    fuzz::expect(config::parse_job(config::print_yaml(job), "f") == job, "prints another job");
    for (const int world : {1, 2, 8, 1 << 20})
      fuzz::takes([&] {
        const config::Job resolved = config::resolve(job, world, {.vocab = 256});
        config::notes(resolved);
        fuzz::expect(config::resolve(resolved, world, {.vocab = 256}) == resolved,
                     "resolving twice changes the job");
      });
  });
  return 0;
}
