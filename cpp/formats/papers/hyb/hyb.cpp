#include <algorithm>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "formats/host_build.hpp"
#include "formats/papers/hyb/build.hpp"
#include "formats/papers/hyb/layout.hpp"

namespace spmvgpu {

namespace {

index_t row_length(const Array<index_t>& row_offsets, index_t row) { return row_offsets[row + 1] - row_offsets[row]; }

// Copies the rows of `part` behind the first `used` entries of each row.
template <class T>
void append_rows(const CsrMatrix<T>& part, HostVector<index_t>& used, CsrMatrix<T>& whole) {
    InterruptTimer timer;
    for (index_t row = 0; row < part.rows; ++row) {
        const index_t from = part.row_offsets[row], count = row_length(part.row_offsets, row);
        const index_t to = whole.row_offsets[row] + used[row];
        std::copy_n(part.col_indices.begin() + from, count, whole.col_indices.begin() + to);
        std::copy_n(part.values.begin() + from, count, whole.values.begin() + to);
        used[row] += count;
        timer.work(count + 1);
    }
}

}  // namespace

std::vector<Options> HybTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t strip : {0, 256, 128}) list.push_back({{"width", std::int64_t(0)}, {"strip", strip}});
    list.push_back({{"width", "max"s}});
    return list;
}

SPMVGPU_BUILD_ON_HOST(Hyb)

template <class T>
CsrMatrix<T> Hyb<T>::to_csr() const {
    const CsrMatrix<T> first = ell.to_csr(), rest = coo.to_csr();
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    for (index_t row = 0; row <= rows; ++row) csr.row_offsets[row] = first.row_offsets[row] + rest.row_offsets[row];
    HostVector<index_t> used(rows, 0);
    append_rows(first, used, csr);
    append_rows(rest, used, csr);
    return csr;
}

template <class T>
void Hyb<T>::spmv(const Product<T>& product) const {
    ell.spmv(product);
    Product<T> rest = product;
    rest.beta = T(1);
    coo.spmv(rest);
}

template <class T>
void Hyb<T>::multiply_panel(const Product<T>& product) const {
    ell.multiply_panel(product);
    coo.add_panel(product);
}

#define INSTANTIATE(T)      \
    template struct Hyb<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Hyb, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
