// Measured seconds of nodes, as parallel.costs names them.
#include "tests/fuzz/target.h"
#include "tests/harness/examples.h"
#include "trireme/model/account/costs.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const plan::Program example = harness::chain_example();
  fuzz::takes([&] {
    plan::Program program = example;
    model::read_costs(fuzz::text_of(data, size), "f", program);
    for (const plan::Node& node : program.nodes)
      fuzz::expect(node.seconds->forward >= 0 && node.seconds->forward <= 1e6, "no seconds");
  });
  return 0;
}
