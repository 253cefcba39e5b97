// Space: common part of all kinds of scratch space, extents and transfers. Internal to the component.
#pragma once

#include <memory>

#include "trireme/base/scratch/mover.h"
#include "trireme/base/scratch/scratch.h"

namespace trireme::scratch {

// A derived class calls end_transfers() first in its destructor.
class Space : public Scratch {
 public:
  Extent reserve(std::int64_t bytes) final;
  void commit() final;
  Ticket write(const Extent& extent, const void* data, std::int64_t bytes) final;
  Ticket read(const Extent& extent, void* data, std::int64_t bytes) final;
  Traffic traffic() const final { return meter_.traffic(); }

 protected:
  virtual void make_real(std::int64_t bytes) = 0;
  void carry_with(std::unique_ptr<Mover> mover) { mover_ = std::move(mover); }
  void end_transfers() { mover_.reset(); }

 private:
  Ticket start(Direction direction, const Extent& extent, std::byte* data, std::int64_t bytes);

  std::int64_t reserved_ = 0;
  bool committed_ = false;
  Meter meter_;
  std::unique_ptr<Mover> mover_;
};

}  // namespace trireme::scratch
