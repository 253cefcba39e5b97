// Messages inside frames: what is taken is what encode() writes, and the store answers all of it.
#include "tests/fuzz/target.h"
#include "trireme/launch/elastic/messages.h"
#include "trireme/launch/elastic/store.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::takes([&] {
    const elastic::Message message = elastic::decode(bytes);
    fuzz::expect(elastic::encode(message) == bytes, "takes what encode() does not write");
    if (const auto* request = std::get_if<elastic::StoreRequest>(&message)) {
      elastic::Store store;
      store.serve(request->generation);
      store.ask(1, {.id = 1,
                    .generation = request->generation,
                    .kind = elastic::StoreRequest::Kind::kSet,
                    .key = request->key,
                    .value = request->expected});
      store.ask(2, *request);
      store.ask(2, *request);
    }
  });
  return 0;
}
