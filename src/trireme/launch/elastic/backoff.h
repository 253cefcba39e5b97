// Backoff: how long to wait between attempts that others may disturb.
#pragma once

namespace trireme::elastic {

// Each pause is drawn between half of a bound and all of it; the bound doubles from `first_s` up to `longest_s`. So
// attempts of many ranks neither come at once nor in step with what disturbs them.
class Backoff {
 public:
  Backoff(double first_s, double longest_s) : bound_s_(first_s), longest_s_(longest_s) {}
  // Seconds to wait now.
  double next();

 private:
  double bound_s_, longest_s_;
};

}  // namespace trireme::elastic
