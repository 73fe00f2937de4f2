// CSR-M: CSR whose product reads x through `col_x`, the x values in the order of the non-zeros, in place of x and the
// column indices. Yin et al. 2012, sections 3.1, 4.2 and 5.1.
//
// clang-format off
//     [ 1 7 . . ]      row_offsets   0   2   4       7     9      length rows + 1
//     [ . 2 8 . ]      values        1 7 2 8 5 3 9 6 4            length nnz
//     [ 5 . 3 9 ]      col_indices   0 1 1 2 0 2 3 1 3            length nnz; only gathering and to_csr() read them
//     [ . 6 . 4 ]      col_x         1 2 2 3 1 3 4 2 4            length nnz, here for x = 1 2 3 4
// clang-format on
//
// Every product gathers col_x first, unless Matrix::set_x has declared that x is the one before:
//     gather="host"    the paper's way: the host gathers, and only col_x crosses to the device, where there is no x and
//                      no column index. Takes x in host memory alone.
//     gather="device"  the column indices lie on the device, and a kernel gathers there. On the CPU both mean this.
// col_x is part of a product, not of the matrix: each CUDA stream has its own, and so have products from host memory.
//
// Kernels: `warp`, a warp per row (table III), and `half_warp`, 16 lanes per row (section 5.1); sums in shared memory.
//
// Use it only for many products with one x, such as the same x against changing alpha, beta and y: then its reads are
// all contiguous. Where x changes with every product, as in a solver, gathering costs a pass over the non-zeros that
// `csr` does not make, and with gather="host" nnz values cross the bus where `csr` sends one per column. Uneven rows
// stall its warps.
#pragma once

#include "formats/format.hpp"

namespace spmvgpu {

enum class Gather { kDevice, kHost };
enum class CsrMKernel { kWarp, kHalfWarp };

struct CsrMTuning {
    Gather gather = Gather::kDevice;
    CsrMKernel kernel = CsrMKernel::kWarp;

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("gather", self.gather, Names{"device", "host"});
        visit("kernel", self.kernel, Names{"warp", "half_warp"});
    }

    static std::vector<Options> candidates();
};

struct CsrMPlan {
    CsrMTuning tuning;
    Cost cost;
    bool indices_stay_on_host = false;
};

template <class T>
struct CsrM {
    static constexpr const char* kName = "csr_m";
    static constexpr Traits kTraits{
        .gathers_x_first = true, .builds_on_gpu = true, .new_values = NewValues::kCopy, .only_if_asked = true};
    using value_type = T;
    using Tuning = CsrMTuning;
    using Plan = CsrMPlan;

    index_t rows = 0, cols = 0, nnz = 0;
    bool indices_stay_on_host = false;  // gather="host" on a GPU
    Array<index_t> row_offsets;         // length rows + 1
    Array<index_t> col_indices;         // length nnz
    Array<T> values;                    // length nnz
    Tuning tuning;

    // Arrays that are not visited stay on the host.
    template <class Self, class Visit>
    static void each_array(Self& self, Visit&& visit) {
        visit("row_offsets", self.row_offsets);
        if (!self.indices_stay_on_host) visit("col_indices", self.col_indices);
        visit("values", self.values);
    }

    static Plan plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target);
    static CsrM from_csr(const CsrMatrix<T>& csr, const Plan& plan);
    CsrMatrix<T> to_csr() const;

    // The first half of a product, left out if the scratch space has col_x of this x already (see Matrix::set_x). If
    // the host gathers for a GPU, spmv_cuda takes the result of gather() as x.
    bool gathers_on_host() const { return indices_stay_on_host; }
    void gather(const T* x, T* col_x, index_t begin, index_t end) const;  // col_x[0] belongs to non-zero `begin`
    void gather_x(const Product<T>& product) const;
    void gather_x_cuda(const Product<T>& product, Stream stream) const;

    // col_x, unless the host gathers it for a GPU; the CPU has one too.
    std::size_t workspace_bytes() const { return indices_stay_on_host ? 0 : nnz * sizeof(T); }

    void spmv(const Product<T>& product) const;
    void multiply_panel(const Product<T>& product) const;
    void spmv_cuda(const Product<T>& product, Stream stream) const;
};

}  // namespace spmvgpu
