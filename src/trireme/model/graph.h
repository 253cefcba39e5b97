// Graph: a ModelSpec under construction, of any shape: values, units and the nodes between them.
#pragma once

#include <string>
#include <vector>

#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"
#include "trireme/model/node_types.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"
#include "trireme/plan/program.h"

namespace trireme::model {

class Graph {
 public:
  // `name` is the program's. Both must outlive this.
  Graph(std::string name, const PerRank& rank, const Training& training);

  const PerRank& rank() const { return rank_; }
  const Training& training() const { return training_; }
  const NodeTypes& types() const { return types_; }

  // An input of `load`, in the order of these calls; it has no gradient.
  plan::ValueId input(std::string name, std::int64_t bytes);
  // Whether one does to a value that a node has written.
  bool reached(plan::ValueId value) const { return reached_[value]; }

  // Parameters that train unless the job freezes the unit of this name.
  plan::UnitId unit(UnitSpec unit);
  // Parameters that train whatever it freezes, or never do.
  plan::UnitId unit(UnitSpec unit, bool trains);
  // A unit that follows `followed` by averages, with its parameters under names that begin with `prefix` instead.
  plan::UnitId average(plan::UnitId followed, std::string name, std::string_view prefix,
                       std::string_view followed_prefix);

  // A node that binds all parameters of these units, one unit after the other, and writes the values. Where none of
  // what it reads is reached and nothing of it trains, its values are not reached either.
  std::vector<plan::ValueId> node(plan::Node node, const Work& work,
                                  const std::vector<plan::UnitId>& units,
                                  std::vector<plan::Value> writes);
  // The last node is a block on rows that cp ranks share: what it reads first and what it writes (model/spread.h).
  void spread_rows();
  // The last node computes these, in this order.
  void computes(std::vector<Operation> operations);
  // To the last node: one more parameter, of a unit that another node binds.
  void bind(ParamRef param);
  // To the last node: adapters of these of its parameters, as a unit of their own.
  void adapt(std::vector<int> weights, UnitSpec adapters);

  ModelSpec& spec() { return spec_; }
  const ModelSpec& spec() const { return spec_; }
  // Checks the program.
  ModelSpec build() &&;

 private:
  plan::ValueId value(plan::Value value, bool reached);
  void bind_all(plan::UnitId unit);

  const PerRank& rank_;
  const Training& training_;
  NodeTypes types_;
  ModelSpec spec_;
  std::vector<bool> reached_;  // parallel to values
};

}  // namespace trireme::model
