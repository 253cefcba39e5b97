// The text of a plan. What is taken prints as it was; the validator gives its verdict on it, good or bad.
#include "tests/fuzz/target.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/plan.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::takes([&] {
    const plan::PlanSet plan = plan::parse(text);
    fuzz::expect(plan::print(plan) == text, "takes what print() does not write");
    try {
      plan::validate(plan);
    } catch (const Error&) {
    }
  });
  return 0;
}
