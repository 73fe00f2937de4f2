// Builder<F, Passes>: how a format is planned and stored, as passes over a matrix on any device; see
// core/passes/passes.hpp. Each formats/<f>/build.hpp specialises it for all passes, with
//     static Plan plan_for(Passes&, const CsrMatrix<T>&, const Tuning&, const Target&);
//     static F from_csr(Passes&, const CsrMatrix<T>&, const Plan&);
// and, where Traits::new_values is kPass, how the values of a format are replaced, its structure staying as it is:
//     static Array<index_t> find_value_map(Passes&, const F&);
//     static void store_values(Passes&, F&, const index_t* map, const T* values);
// The values come in CSR order; the map holds all that can be found out once about their places and that the format
// itself does not say. store_values() throws before it stores anything, or not at all. The matrix, the arrays of the
// plan and the result are on the device of the passes. A plan is for its target, wherever it is made.
#pragma once

#include "core/passes/passes.hpp"
#include "formats/format.hpp"

namespace spmvgpu {

template <class F, class Passes>
struct Builder;

// Makes a plan and its format on the GPU that holds the matrix; both are complete on return. Defined in
// formats/<f>/build.cu, for the formats with Traits::builds_on_gpu.
template <class F>
typename F::Plan plan_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Tuning& tuning,
                             const Target& target);
template <class F>
F build_on_gpu(const CsrMatrix<typename F::value_type>& csr, const typename F::Plan& plan);

// Puts new values into a format in host memory or on a GPU; values for a GPU may lie there or in host memory.
template <class F>
Array<index_t> find_value_map_on_host(const F& format);
template <class F>
void store_values_on_host(F& format, const Array<index_t>& map, const Array<typename F::value_type>& values);
template <class F>
Array<index_t> find_value_map_on_gpu(const F& format, int ordinal);
template <class F>
void store_values_on_gpu(F& format, const Array<index_t>& map, const Array<typename F::value_type>& values,
                         int ordinal);

}  // namespace spmvgpu
