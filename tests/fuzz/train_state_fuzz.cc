// What a checkpoint says of the run beside its tensors.
#include "tests/fuzz/target.h"
#include "trireme/train/run/train_state.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::takes([&] {
    const train::TrainState state =
        train::parse_train_state(std::string(fuzz::text_of(data, size)), 100, "f");
    fuzz::expect(train::parse_train_state(train::print(state), 100, "f") == state,
                 "prints another state");
  });
  return 0;
}
