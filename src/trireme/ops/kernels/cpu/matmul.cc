#include "trireme/ops/kernels/cpu/matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "trireme/base/cpu.h"
#include "trireme/base/error.h"

#ifdef TRIREME_ONEDNN
#include <dnnl.hpp>
#include <unordered_map>

#include "trireme/base/hash.h"
#endif

namespace trireme::ops::kernels {
namespace {

at::Tensor tensor(const Matrix& m) {
  return at::from_blob(m.data, {m.rows, m.columns}, {m.row_stride, m.column_stride},
                       at::TensorOptions().dtype(m.type));
}

// A bias as a row, as products add it.
at::Tensor bias_row(const void* bias, const Matrix& a, const Matrix& out) {
  return at::from_blob(const_cast<void*>(bias), {1, out.columns},
                       at::TensorOptions().dtype(a.type));
}

// Rows and columns of tiles in wide numbers. A product's memory apart from its operands does not grow with them. It is
// one tile of the added result (model/account/per_rank.cc counts it), or three that the thread keeps.
constexpr std::int64_t kTile = 128;

void matmul_aten(const Matrix& a, const Matrix& b, const Matrix& out, Into into, const void* bias) {
  at::Tensor to = tensor(out);
  if (into == Into::kReplace) {
    if (a.type != out.type)
      to.copy_(at::mm(tensor(a), tensor(b)));
    else if (bias == nullptr)
      at::mm_out(to, tensor(a), tensor(b));
    else
      at::addmm_out(to, bias_row(bias, a, out), tensor(a), tensor(b));
    return;
  }
  const at::ScalarType wide =
      out.type == c10::ScalarType::Double ? c10::ScalarType::Double : c10::ScalarType::Float;
  const at::Tensor left = tensor(a).to(wide), right = tensor(b).to(wide);
  const std::int64_t most = std::max<std::int64_t>(1, kTile * kTile / out.columns);
  for (std::int64_t row = 0; row < out.rows; row += most) {
    const std::int64_t rows = std::min(most, out.rows - row);
    to.narrow(0, row, rows).add_(at::mm(left.narrow(0, row, rows), right));
  }
}

void matmul_widened(const Matrix& a, const Matrix& b, const Matrix& out, Into into,
                    const void* bias) {
  const at::Tensor left = tensor(a), right = tensor(b), to = tensor(out);
  thread_local std::vector<float> tiles(3 * kTile * kTile);
  const auto tile = [&](int which, std::int64_t rows, std::int64_t columns) {
    return at::from_blob(tiles.data() + which * kTile * kTile, {rows, columns}, at::kFloat);
  };
  const auto part = [](const at::Tensor& of, std::int64_t row, std::int64_t rows,
                       std::int64_t column, std::int64_t columns) {
    return of.narrow(0, row, rows).narrow(1, column, columns);
  };
  for (std::int64_t i = 0; i < out.rows; i += kTile)
    for (std::int64_t j = 0; j < out.columns; j += kTile) {
      const std::int64_t rows = std::min(kTile, out.rows - i);
      const std::int64_t columns = std::min(kTile, out.columns - j);
      at::Tensor sum = tile(2, rows, columns);
      sum.zero_();
      if (bias != nullptr) sum.add_(bias_row(bias, a, out).narrow(1, j, columns));
      for (std::int64_t k = 0; k < a.columns; k += kTile) {
        const std::int64_t depth = std::min(kTile, a.columns - k);
        sum.addmm_(tile(0, rows, depth).copy_(part(left, i, rows, k, depth)),
                   tile(1, depth, columns).copy_(part(right, k, depth, j, columns)));
      }
      at::Tensor result = part(to, i, rows, j, columns);
      if (into == Into::kAdd) sum.add_(result);
      result.copy_(sum);
    }
}

#ifdef TRIREME_ONEDNN

// An operand as BLAS names it, by rows or by columns; none where neither lies together.
struct Dense {
  char transposed;
  dnnl_dim_t stride;
};
std::optional<Dense> dense(const Matrix& m) {
  if (m.column_stride == 1 && (m.rows == 1 || m.row_stride >= m.columns))
    return Dense{'N', std::max(m.row_stride, m.columns)};
  if (m.row_stride == 1 && (m.columns == 1 || m.column_stride >= m.rows))
    return Dense{'T', std::max(m.column_stride, m.rows)};
  return std::nullopt;
}

// Calls oneDNN's code for all shapes in fp32. Code of one shape is mostly within 10 % of it, but 30 to 40 % faster for the
// smallest tiles. It takes 0.3 ms to make and 70 KB to keep, and jobs with varying rows need more in every micro-batch.
bool multiplied_sgemm(const Matrix& a, const Matrix& b, const Matrix& out, Into into,
                      const void* bias) {
  const std::optional<Dense> left = dense(a), right = dense(b), result = dense(out);
  if (!left || !right || !result || result->transposed != 'N') return false;
  if (bias != nullptr) {
    for (std::int64_t row = 0; row < out.rows; ++row)
      std::memcpy(static_cast<float*>(out.data) + row * out.row_stride, bias,
                  static_cast<std::size_t>(out.columns) * sizeof(float));
    into = Into::kAdd;
  }
  dnnl::error::wrap_c_api(
      dnnl_sgemm(left->transposed, right->transposed, out.rows, out.columns, a.columns, 1.0f,
                 static_cast<const float*>(a.data), left->stride, static_cast<const float*>(b.data),
                 right->stride, into == Into::kAdd ? 1.0f : 0.0f, static_cast<float*>(out.data),
                 result->stride),
      "oneDNN could not multiply");
  return true;
}

// All that a oneDNN primitive is made for.
struct Problem {
  std::int64_t rows, inner, columns, a_strides[2], b_strides[2], out_stride;
  std::int32_t type, out_type, add, biased;
  bool operator==(const Problem&) const = default;
};
struct ProblemHash {
  std::size_t operator()(const Problem& p) const {
    return static_cast<std::size_t>(
        hash64(std::string_view(reinterpret_cast<const char*>(&p), sizeof p)));
  }
};

// A primitive and the places of its operands, which are set for each run.
struct Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, out, bias;
};

// oneDNN keeps code itself, so that threads share it; as much of it.
const dnnl::engine& engine() {
  static const dnnl::engine cpu = [] {
    dnnl::set_primitive_cache_capacity(static_cast<int>(kMostProducts));
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

dnnl::memory::data_type data_type(c10::ScalarType type) {
  return type == c10::ScalarType::BFloat16 ? dnnl::memory::data_type::bf16
                                           : dnnl::memory::data_type::f32;
}

Product prepare(const Problem& p) {
  const auto type = data_type(static_cast<c10::ScalarType>(p.type));
  const auto out_type = data_type(static_cast<c10::ScalarType>(p.out_type));
  const dnnl::memory::desc a({p.rows, p.inner}, type, {p.a_strides[0], p.a_strides[1]});
  const dnnl::memory::desc b({p.inner, p.columns}, type, {p.b_strides[0], p.b_strides[1]});
  const dnnl::memory::desc out({p.rows, p.columns}, out_type, {p.out_stride, 1});
  dnnl::primitive_attr attributes;
  if (p.add != 0) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  // Without dimensions there is none.
  const dnnl::memory::desc bias = p.biased != 0
                                      ? dnnl::memory::desc({1, p.columns}, type, {p.columns, 1})
                                      : dnnl::memory::desc();
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(engine(), a, b, bias, out, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, bias, out), attributes,
                                                 engine());
#endif
  const auto place = [](const dnnl::memory::desc& layout) {
    return dnnl::memory(layout, engine(), DNNL_MEMORY_NONE);
  };
  return {dnnl::matmul(description), place(a), place(b), place(out), place(bias)};
}

// The products of a thread: a primitive may be run by one thread at a time, and ranks may be threads.
class Products {
 public:
  Product& find(const Problem& problem) {
    auto found = products_.find(problem);
    if (found == products_.end()) {
      if (products_.size() >= kMostProducts) drop_older_half();
      found = products_.emplace(problem, Kept{.product = prepare(problem)}).first;
    }
    found->second.used = ++uses_;
    return found->second.product;
  }
  std::size_t size() const { return products_.size(); }

 private:
  struct Kept {
    Product product;
    std::uint64_t used = 0;
  };

  void drop_older_half() {
    std::vector<std::uint64_t> uses;
    for (const auto& [problem, kept] : products_) uses.push_back(kept.used);
    const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2);
    std::ranges::nth_element(uses, middle);
    std::erase_if(products_, [&](const auto& one) { return one.second.used < *middle; });
  }

  std::unordered_map<Problem, Kept, ProblemHash> products_;
  std::uint64_t uses_ = 0;
};

Products& products() {
  thread_local Products all;
  return all;
}

void matmul_onednn(const Matrix& a, const Matrix& b, const Matrix& out, Into into,
                   const void* bias) {
  thread_local dnnl::stream stream(engine());
  const Problem problem{.rows = a.rows,
                        .inner = a.columns,
                        .columns = b.columns,
                        .a_strides = {a.row_stride, a.column_stride},
                        .b_strides = {b.row_stride, b.column_stride},
                        .out_stride = out.row_stride,
                        .type = static_cast<std::int32_t>(a.type),
                        .out_type = static_cast<std::int32_t>(out.type),
                        .add = into == Into::kAdd,
                        .biased = bias != nullptr};
  Product& product = products().find(problem);
  product.a.set_data_handle(a.data);
  product.b.set_data_handle(b.data);
  product.out.set_data_handle(out.data);
  product.bias.set_data_handle(const_cast<void*>(bias));
  // The C call takes its arguments without building a map of them.
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product.a.get()},
                                       {DNNL_ARG_WEIGHTS, product.b.get()},
                                       {DNNL_ARG_DST, product.out.get()},
                                       {DNNL_ARG_BIAS, product.bias.get()}};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(product.primitive.get(), stream.get(),
                                                 bias != nullptr ? 4 : 3, arguments),
                          "oneDNN could not multiply");
  stream.wait();
}

#endif

// Whether the CPU has no products of a type, so that it multiplies them in float (base/cpu.h).
bool needs_widening(c10::ScalarType type) {
  static const bool bf16 = product_type(DType::kBF16) != DType::kBF16;
  return type == c10::ScalarType::Half || (type == c10::ScalarType::BFloat16 && bf16);
}

// The product of no columns with no rows.
void add_nothing(const Matrix& a, const Matrix& out, Into into, const void* bias) {
  at::Tensor to = tensor(out);
  if (into == Into::kReplace) to.zero_();
  if (bias != nullptr) to.add_(bias_row(bias, a, out));
}

}  // namespace

#ifdef TRIREME_ONEDNN
std::size_t kept_products() { return products().size(); }
#else
std::size_t kept_products() { return 0; }
#endif

void matmul(const Matrix& a, const Matrix& b, const Matrix& out, Into into, const void* bias) {
  TRIREME_CHECK(a.type == b.type && a.columns == b.rows && a.rows == out.rows &&
                    b.columns == out.columns && out.column_stride == 1 &&
                    (out.type == a.type || out.type == c10::ScalarType::Float),
                "matmul: [{}, {}] x [{}, {}] into [{}, {}]", a.rows, a.columns, b.rows, b.columns,
                out.rows, out.columns);
  TRIREME_CHECK(bias == nullptr || (into == Into::kReplace && out.type == a.type),
                "matmul: a bias together with a sum, or a result of another type");
  if (out.rows == 0 || out.columns == 0) return;
  if (a.columns == 0) return add_nothing(a, out, into, bias);
  if (needs_widening(a.type)) return matmul_widened(a, b, out, into, bias);
#ifdef TRIREME_ONEDNN
  if (a.type == c10::ScalarType::Float && multiplied_sgemm(a, b, out, into, bias)) return;
  if (a.type != c10::ScalarType::Double) return matmul_onednn(a, b, out, into, bias);
#endif
  matmul_aten(a, b, out, into, bias);
}

}  // namespace trireme::ops::kernels
