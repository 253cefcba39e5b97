#include "trireme/ops/kernels/cpu/matmul.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

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

void matmul_aten(const Matrix& a, const Matrix& b, const Matrix& out, Into into) {
  at::Tensor to = tensor(out);
  if (into == Into::kAdd)
    to.add_(at::mm(tensor(a).to(out.type), tensor(b).to(out.type)));
  else
    to.copy_(at::mm(tensor(a), tensor(b)));
}

#ifdef TRIREME_ONEDNN

// All that a oneDNN primitive is made for.
struct Problem {
  std::int64_t rows, inner, columns, a_strides[2], b_strides[2], out_stride;
  std::int32_t type, out_type, add, unused;
  bool operator==(const Problem&) const = default;
};
struct ProblemHash {
  std::size_t operator()(const Problem& p) const {
    return static_cast<std::size_t>(
        hash64(std::string_view(reinterpret_cast<const char*>(&p), sizeof p)));
  }
};

// A primitive and the places of its operands, which are set anew for each run.
struct Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, out;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
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
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(engine(), a, b, out, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, out), attributes,
                                                 engine());
#endif
  const auto place = [](const dnnl::memory::desc& layout) {
    return dnnl::memory(layout, engine(), DNNL_MEMORY_NONE);
  };
  return {dnnl::matmul(description), place(a), place(b), place(out)};
}

void matmul_onednn(const Matrix& a, const Matrix& b, const Matrix& out, Into into) {
  // A primitive may be run by one thread at a time, and ranks may be threads. The shapes of one model are
  // few; attention over ever new lengths is bounded.
  constexpr std::size_t kMost = 4096;
  thread_local std::unordered_map<Problem, Product, ProblemHash> products;
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
                        .unused = 0};
  auto found = products.find(problem);
  if (found == products.end()) {
    if (products.size() >= kMost) products.clear();
    found = products.emplace(problem, prepare(problem)).first;
  }
  Product& product = found->second;
  product.a.set_data_handle(a.data);
  product.b.set_data_handle(b.data);
  product.out.set_data_handle(out.data);
  // The C call takes its arguments without building a map of them.
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product.a.get()},
                                       {DNNL_ARG_WEIGHTS, product.b.get()},
                                       {DNNL_ARG_DST, product.out.get()}};
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(product.primitive.get(), stream.get(), 3, arguments),
      "oneDNN could not multiply");
  stream.wait();
}

#endif

}  // namespace

void matmul(const Matrix& a, const Matrix& b, const Matrix& out, Into into) {
  TRIREME_CHECK(a.type == b.type && a.columns == b.rows && a.rows == out.rows &&
                    b.columns == out.columns && out.column_stride == 1 &&
                    (into == Into::kReplace || out.type != c10::ScalarType::BFloat16),
                "matmul: [{}, {}] x [{}, {}] into [{}, {}]", a.rows, a.columns, b.rows, b.columns,
                out.rows, out.columns);
  if (out.rows == 0 || out.columns == 0) return;
#ifdef TRIREME_ONEDNN
  if (a.type != c10::ScalarType::Double) return matmul_onednn(a, b, out, into);
#endif
  matmul_aten(a, b, out, into);
}

}  // namespace trireme::ops::kernels
