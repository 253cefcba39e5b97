#include <map>
#include <optional>
#include <type_traits>

#include "trireme/plan/text/instr_fields.h"
#include "trireme/plan/text/matrix_text.h"
#include "trireme/plan/text/outer_text.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/text/text_line.h"

namespace trireme::plan {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(split(text, '\n')) {}

  PlanSet parse() {
    if (lines_.back().empty()) lines_.pop_back();
    head();
    while (at_ < lines_.size() && kind() != "list") {
      if (kind() == "value")
        value();
      else if (kind() == "unit")
        unit();
      else if (kind() == "node")
        node();
      else
        next().refuse("\"{}\" is neither value, unit, node nor list", kind_);
    }
    plan_.list_of_rank.assign(static_cast<std::size_t>(plan_.mesh.world()), -1);
    while (at_ < lines_.size()) list();
    for (std::size_t rank = 0; rank < plan_.list_of_rank.size(); ++rank)
      if (plan_.list_of_rank[rank] < 0)
        next().refuse("the text ends, but rank {} has no list", rank);
    return std::move(plan_);
  }

 private:
  Line next() {
    const std::string_view text = at_ < lines_.size() ? lines_[at_] : std::string_view();
    return Line(static_cast<int>(++at_), text);
  }
  std::string_view kind() {
    return kind_ = lines_[at_].substr(0, std::min(lines_[at_].find(' '), lines_[at_].size()));
  }

  void head() {
    Line first = next();
    first.expect("plan");
    if (const std::string_view version = first.word(); version != "1")
      first.refuse("version {} of the format, this program reads 1", version);
    plan_.program.name = first.word();
    first.end();
    Line second = next();
    second.expect("mesh");
    // Mesh and axes name their own mistakes; the line number is ours to add.
    located(second, [&] { plan_.mesh = mesh::parse_mesh(second.word()); });
    second.end();
    recipe(next());
  }

  void recipe(Line line) {
    line.expect("recipe");
    Recipe& recipe = plan_.recipe;
    recipe.zero = line.number<int>(line.required("zero"));
    recipe.micro_batches = line.number<int>(line.required("micro_batches"));
    recipe.prefetch = line.number<int>(line.required("prefetch"));
    recipe.canonical = line.yes(line.required("canonical"));
    recipe.clip = line.yes(line.required("clip"));
    recipe.schedule =
        line.one_of<schedules::Schedule>(line.required("schedule"), schedules::kScheduleCount + 1);
    recipe.activation_limit = line.number<double>(line.required("activation_limit"));
    recipe.transfer = line.number<double>(line.required("transfer"));
    recipe.unsent = line.number<int>(line.required("unsent"));
    recipe.compute = line.one_of<DType>(line.required("compute"), 9);
    recipe.master = line.one_of<DType>(line.required("master"), 9);
    recipe.grads = line.one_of<DType>(line.required("grads"), 9);
    recipe.optimizer_states = line.number<int>(line.required("optimizer_states"));
    if (const auto group = line.optional("group")) recipe.group = line.number<int>(*group);
    recipe.gathers_after_step = line.flag("gathers_after_step");
    if (const auto n = line.optional("rounds")) recipe.matrix_rounds = line.number<int>(*n);
    recipe.int8_states = line.flag("int8_states");
    if (const auto reduce = line.optional("reduce")) recipe.reduce = line.one_of<DType>(*reduce, 9);
    coded(line, recipe.coded);
    if (const auto codec = line.optional("gather"))
      located(line, [&] { recipe.gather = {.codec = codec::parse(*codec)}; });
    const auto within = recipe.gather ? line.optional("within") : std::nullopt;
    if (within) recipe.gather->within = line.number<int>(*within);
    located(line, [&] { recipe.outer = parse_outer(line); });
    if (const auto algorithm = line.optional("algorithm"))
      recipe.algorithm = line.one_of<algorithm::Kind>(*algorithm, algorithm::kKinds);
    offload(line, recipe.offload);
    line.end();
  }

  static void coded(Line& line, std::optional<CodedSums>& coded) {
    const auto codec = line.optional("codec");
    if (!codec) return;
    located(line, [&] {
      coded = {.codec = codec::parse(*codec),
               .senders = line.number<int>(line.required("senders"))};
      if (const auto back = line.optional("back")) coded->back = codec::parse(*back);
      if (const auto residual = line.optional("residual"))
        coded->residual = line.one_of<DType>(*residual, 9);
      if (const auto n = line.optional("residuals")) coded->residuals = line.number<int>(*n);
    });
  }

  static void offload(Line& line, Offload& offload) {
    const auto tier = [&](std::string_view text) { return line.one_of<Tier>(text, 4); };
    const auto optimizer = line.optional("offload_optimizer");
    if (!optimizer) return;
    offload.optimizer = tier(*optimizer);
    offload.params = tier(line.required("offload_params"));
    offload.grads = tier(line.required("offload_grads"));
    offload.activations = tier(line.required("offload_activations"));
    offload.ratio = line.number<double>(line.required("ratio"));
    offload.prefetch = line.number<int>(line.required("ahead"));
  }

  void value() {
    Line line = next();
    line.expect("value");
    Value value{.name = std::string(line.word())};
    value.bytes = line.number<std::int64_t>(line.required("bytes"));
    if (const auto shape = line.optional("shape"))
      for (std::string_view size : split(*shape, 'x'))
        value.shape.push_back(line.number<std::int64_t>(size));
    value.whole = line.flag("whole");
    value.varies = line.flag("varies");
    if (const auto type = line.optional("type")) value.type = line.one_of<DType>(*type, 9);
    value.differentiable = !line.flag("no_gradient");
    line.end();
    add(line, values_, value.name);
    plan_.program.values.push_back(std::move(value));
  }

  void unit() {
    Line line = next();
    line.expect("unit");
    Unit unit{.name = std::string(line.word())};
    unit.numel = line.number<std::int64_t>(line.required("numel"));
    unit.trainable = !line.flag("frozen");
    if (const auto followed = line.optional("ema_of"))
      unit.ema_of = find(line, units_, *followed, "unit");
    if (const auto whole = line.optional("part_of"))
      unit.part_of = find(line, units_, *whole, "unit");
    if (const auto n = line.optional("tp_partial")) unit.tp_partial = line.number<std::int64_t>(*n);
    if (const auto type = line.optional("type")) unit.type = line.one_of<DType>(*type, 9);
    axes(line, "shards", unit.axes.shards);
    axes(line, "replicas", unit.axes.replicas);
    axes(line, "partial", unit.axes.partial);
    parse_updates(line, unit);
    line.end();
    add(line, units_, unit.name);
    plan_.program.units.push_back(std::move(unit));
  }

  static void axes(Line& line, std::string_view key, mesh::AxisSet& axes) {
    if (const auto text = line.optional(key))
      located(line, [&] { axes = mesh::parse_axes(*text); });
  }

  void node() {
    Line line = next();
    line.expect("node");
    Node node{.name = std::string(line.word())};
    node.stage = line.number<int>(line.required("stage"));
    if (const auto chunk = line.optional("chunk")) node.chunk = line.number<int>(*chunk);
    if (const auto number = line.optional("segment")) node.segment = line.number<int>(*number);
    if (const auto names = line.optional("reads"))
      node.reads = find_all(line, values_, *names, "value");
    if (const auto names = line.optional("writes"))
      node.writes = find_all(line, values_, *names, "value");
    if (const auto names = line.optional("units"))
      node.units = find_all(line, units_, *names, "unit");
    node.saved_bytes = line.number<std::int64_t>(line.required("saved"));
    node.flops = line.number<double>(line.required("flops"));
    if (const auto flops = line.optional("backward"))
      node.backward_flops = line.number<double>(*flops);
    if (const auto text = line.optional("work")) {
      const std::vector<std::string_view> parts = numbers(line, *text, 5);
      const auto bytes = [&](std::size_t i) { return line.number<std::int64_t>(parts[i]); };
      node.work = {.forward = bytes(0),
                   .passing = bytes(1),
                   .backward = bytes(2),
                   .input = bytes(3),
                   .weight = bytes(4)};
    }
    while (const auto text = line.optional("part")) node.parts.push_back(part(line, *text));
    if (const auto text = line.optional("split")) {
      const std::vector<std::string_view> parts = numbers(line, *text, 2);
      node.split = {.kept_bytes = line.number<std::int64_t>(parts[0]),
                    .weight_flops = line.number<double>(parts[1])};
    }
    if (const auto text = line.optional("seconds")) {
      const std::vector<std::string_view> parts = numbers(line, *text, 3);
      node.seconds = {.forward = line.number<double>(parts[0]),
                      .input = line.number<double>(parts[1]),
                      .weight = line.number<double>(parts[2])};
    }
    node.no_grad = line.flag("no_grad");
    node.loss = line.flag("loss");
    node.joint = line.flag("joint");
    node.looks_up = line.flag("looks_up");
    while (!line.done()) node.exchanges.push_back(exchange(line));
    add(line, nodes_, node.name);
    plan_.program.nodes.push_back(std::move(node));
  }

  static std::vector<std::string_view> numbers(const Line& line, std::string_view text,
                                               std::size_t count) {
    std::vector<std::string_view> parts = split(text, ':');
    if (parts.size() != count) line.refuse("\"{}\" needs {} numbers", text, count);
    return parts;
  }

  // NAME:SAVED:WORK:FLOPS[:whole][:again]
  static Part part(const Line& line, std::string_view text) {
    std::vector<std::string_view> parts = split(text, ':');
    const auto flag = [&](std::string_view word) {
      if (parts.back() != word) return false;
      parts.pop_back();
      return true;
    };
    const bool recomputed = flag("again"), whole = flag("whole");
    if (parts.size() != 4) line.refuse("\"{}\" is not a part of a node", text);
    return {.name = std::string(parts[0]),
            .saved_bytes = line.number<std::int64_t>(parts[1]),
            .work_bytes = line.number<std::int64_t>(parts[2]),
            .flops = line.number<double>(parts[3]),
            .whole = whole,
            .recomputed = recomputed};
  }

  // KIND=AXES:BYTES:FORWARD+BACKWARD[+WEIGHT][:PART]
  NodeExchange exchange(Line& line) {
    const std::string_view word = line.word();
    const std::vector<std::string_view> sides = split(word, '=');
    const std::vector<std::string_view> parts = split(sides.back(), ':');
    const std::vector<std::string_view> times =
        split(parts[std::min<std::size_t>(2, parts.size() - 1)], '+');
    if (sides.size() != 2 || parts.size() < 3 || parts.size() > 4 || times.size() < 2 ||
        times.size() > 3)
      line.refuse("\"{}\" does not belong here", word);
    NodeExchange one{.kind = line.one_of<Exchange>(sides[0], 5),
                     .bytes = line.number<std::int64_t>(parts[1]),
                     .forward = line.number<int>(times[0]),
                     .backward = line.number<int>(times[1]),
                     .weight = times.size() > 2 ? line.number<int>(times[2]) : 0,
                     .part = parts.size() > 3 ? std::string(parts[3]) : ""};
    located(line, [&] { one.axes = mesh::parse_axes(parts[0]); });
    return one;
  }

  void list() {
    Line line = next();
    line.expect("list");
    const int index = line.number<int>(line.word());
    if (index != static_cast<int>(plan_.lists.size()))
      line.refuse("list {} follows {} lists", index, plan_.lists.size());
    ranks(line, line.required("ranks"), index);
    const auto count = line.number<std::size_t>(line.required("lines"));
    line.end();
    plan_.lists.emplace_back();
    while (at_ < lines_.size() && kind() != "list") instr(next(), plan_.lists.back());
    if (const std::size_t seen = plan_.lists.back().size(); seen != count)
      line.refuse("promises {} lines, {} follow", count, seen);
  }

  void ranks(Line& line, std::string_view text, int index) {
    if (text.empty()) return;
    for (std::string_view range : split(text, ',')) {
      const std::size_t dash = range.find('-');
      const int first = line.number<int>(range.substr(0, dash));
      const int last =
          dash == std::string_view::npos ? first : line.number<int>(range.substr(dash + 1));
      for (int rank = first; rank <= last; ++rank) {
        if (rank < 0 || rank >= plan_.mesh.world())
          line.refuse("rank {} is not in a world of {}", rank, plan_.mesh.world());
        int& list = plan_.list_of_rank[rank];
        if (list >= 0) line.refuse("rank {} has list {} already", rank, list);
        list = index;
      }
    }
  }

  void instr(Line line, List& list) {
    if (const int number = line.number<int>(line.word()); number != static_cast<int>(list.size()))
      line.refuse("is numbered {}, needs {}", number, list.size());
    Instr instr;
    std::string_view subject;  // as it is named
    for_each_field([&](std::string_view key, auto field) {
      using Field = std::remove_reference_t<decltype(instr.*field)>;
      if constexpr (std::is_same_v<Field, Lane>) {
        instr.*field = line.one_of<Lane>(line.word(), kLaneCount);
      } else if constexpr (std::is_same_v<Field, Verb>) {
        instr.*field = line.one_of<Verb>(line.word(), kVerbCount);
        if (subject_of(instr.verb) != Subject::kNone) subject = line.word();
      } else if constexpr (std::is_same_v<Field, TensorKind>) {
        if (subject_of(instr.verb) == Subject::kMoved) moved(line, subject, instr);
      } else if constexpr (std::is_same_v<Field, bool>) {
        instr.*field = line.flag(key);
      } else if constexpr (std::is_same_v<Field, mesh::AxisSet>) {
        axes(line, key, instr.*field);
      } else if constexpr (std::is_same_v<Field, int>) {
        number(line, key, subject, field, instr);
      } else {
        if (const auto text = line.optional(key))
          for (std::string_view earlier : split(*text, ','))
            (instr.*field).push_back(line.number<int>(earlier));
      }
    });
    line.end();
    list.push_back(std::move(instr));
  }

  // The subject of the line, or a number with its key.
  void number(Line& line, std::string_view key, std::string_view subject, int Instr::*field,
              Instr& instr) const {
    const Subject about = subject_of(instr.verb);
    if (field == &Instr::node) {
      if (about == Subject::kNode) instr.node = find(line, nodes_, subject, "node");
    } else if (field == &Instr::unit) {
      if (about == Subject::kUnit) instr.unit = find(line, units_, subject, "unit");
    } else if (field == &Instr::value) {
      if (about == Subject::kValue) instr.value = find(line, values_, subject, "value");
    } else if (const auto text = line.optional(key)) {
      instr.*field = field == &Instr::mb && *text == "all" ? 0 : line.number<int>(*text);
    }
  }

  // A unit's shard, or a value.
  void moved(Line& line, std::string_view name, Instr& instr) const {
    for (TensorKind tensors : {TensorKind::kStates, TensorKind::kParams, TensorKind::kGrads})
      if (line.flag(plan::name(tensors))) instr.tensors = tensors;
    if (instr.tensors == TensorKind::kNone)
      instr.value = find(line, values_, name, "value");
    else
      instr.unit = find(line, units_, name, "unit");
  }

  using Names = std::map<std::string, int, std::less<>>;

  static void add(const Line& line, Names& names, const std::string& name) {
    if (!names.emplace(name, static_cast<int>(names.size())).second)
      line.refuse("{} is named twice", name);
  }
  static int find(const Line& line, const Names& names, std::string_view name, const char* what) {
    const auto found = names.find(name);
    if (found == names.end()) line.refuse("\"{}\" is no {} of this program", name, what);
    return found->second;
  }
  static std::vector<int> find_all(const Line& line, const Names& names, std::string_view list,
                                   const char* what) {
    std::vector<int> ids;
    for (std::string_view name : split(list, ',')) ids.push_back(find(line, names, name, what));
    return ids;
  }
  template <typename Action>
  static void located(const Line& line, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      line.refuse("{}", error.what());
    }
  }

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  std::string_view kind_;
  PlanSet plan_;
  Names values_;
  Names units_;
  Names nodes_;
};

// What a lenient reading lets through (blanks, leading zeros, order) shows when printed again.
void check_canonical(const PlanSet& plan, std::string_view text) {
  const std::string printed = print(plan);
  if (printed == text) return;
  const std::vector<std::string_view> seen = split(text, '\n');
  const std::vector<std::string_view> expected = split(printed, '\n');
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (i >= seen.size() || seen[i] != expected[i])
      fail(ErrorKind::kData, "plan line {}: not in canonical form, needs \"{}\"", i + 1,
           expected[i]);
  fail(ErrorKind::kData, "plan line {}: nothing may follow the last list", expected.size());
}

}  // namespace

PlanSet parse(std::string_view text) {
  PlanSet plan = Parser(text).parse();
  check_canonical(plan, text);
  return plan;
}

}  // namespace trireme::plan
