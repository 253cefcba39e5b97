// Replaces the header of this name that Gloo's pair.h and context.h include and that its installation leaves out. It
// has the same three types, of which only size and lifetime matter to a class derived from a pair.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

template <typename T>
class WeakNonOwningPtr final {
  std::weak_ptr<T> ptr_;
};

template <typename T>
class ShareableNonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

}  // namespace gloo
