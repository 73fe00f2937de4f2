#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"
#include "formats/tsmv/build.hpp"
#include "formats/tsmv/entries.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu {

std::vector<Options> TsmvTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t threads : {128, 256}) {
        for (std::int64_t slices : {1, 2, 4}) {
            for (std::int64_t depth : {1, 2, 4}) {
                list.push_back({{"threads", threads}, {"slices", slices}, {"depth", depth}});
            }
        }
    }
    return list;
}

SPMVGPU_BUILD_ON_HOST(Tsmv)

template <class T>
CsrMatrix<T> Tsmv<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    const auto count = [&](index_t row, index_t, T) { ++csr.row_offsets[row + 1]; };
    const auto visit_tiles = [this](const auto& visit) {
        for (index_t t = 0; t < tile_count(); ++t) {
            for_each_entry(*this, t, visit);
            check_interrupt();
        }
    };
    visit_tiles(count);
    for (index_t row = 0; row < remainder.rows; ++row) {
        csr.row_offsets[row + 1] += remainder.row_offsets[row + 1] - remainder.row_offsets[row];
    }
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());

    struct Entry {
        index_t col;
        T value;
    };
    HostVector<Entry> entries(nnz);
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto put = [&](index_t row, index_t col, T value) { entries[next[row]++] = {col, value}; };
    visit_tiles(put);
    parallel_for(rows, nnz, [&](index_t row) {
        for (index_t k = remainder.rows ? remainder.row_offsets[row] : 0;
             remainder.rows && k < remainder.row_offsets[row + 1]; ++k) {
            entries[next[row]++] = {remainder.col_indices[k], remainder.values[k]};
        }
        const index_t begin = csr.row_offsets[row], end = csr.row_offsets[row + 1];
        std::sort(entries.begin() + begin, entries.begin() + end,
                  [](const Entry& a, const Entry& b) { return a.col < b.col; });
        for (index_t k = begin; k < end; ++k) {
            csr.col_indices[k] = entries[k].col;
            csr.values[k] = entries[k].value;
        }
    });
    return csr;
}

template <class T>
void Tsmv<T>::spmv(const Product<T>& product) const {
    auto* const halo_sums = static_cast<T*>(product.scratch);
    const int width = tuning.block;
    const index_t slots = step_offsets.size() ? step_offsets[step_offsets.size() - 1] : 0;
    // A node's part of a vector: `width` values, of which a small node uses fewer.
    const auto rows_of = [this](index_t node) { return first_row(node + 1) - first_row(node); };
    parallel_ranges(tile_count(), std::int64_t(slots) * width + rows, [&](std::int64_t first, std::int64_t last) {
        std::vector<T> x, y;  // for a tile, in its numbering
        for (auto t = static_cast<index_t>(first); t < last; ++t) {
            const TsmvTile &at = tiles[t], &end = tiles[t + 1];
            const index_t halo = end.halo - at.halo, nodes = halo + end.node - at.node;
            x.assign(nodes * width, T(0));
            y.assign(nodes * width, T(0));
            for (index_t n = 0; n < nodes; ++n) {
                const index_t node = n < halo ? halo_nodes[at.halo + n] : at.node + n - halo;
                std::copy_n(product.x + first_row(node), rows_of(node), x.begin() + n * width);
            }
            multiply_tile(*this, t, x.data(), y.data());
            std::copy_n(y.begin(), halo * width, halo_sums + std::size_t(at.halo) * width);
            for (index_t node = at.node; node < end.node; ++node) {
                const T* const sums = y.data() + (halo + node - at.node) * width;
                const index_t row = first_row(node);
                for (int i = 0; i < rows_of(node); ++i) store_row(product, row + i, sums[i]);
            }
        }
    });
    const auto merges = static_cast<index_t>(merge_nodes.size());
    parallel_for(merges, merges * std::int64_t(width), [&](index_t m) {
        const index_t row = first_row(merge_nodes[m]);
        for (int i = 0; i < rows_of(merge_nodes[m]); ++i) {
            T sum = 0;
            for (index_t k = merge_offsets[m]; k < merge_offsets[m + 1]; ++k) {
                sum += halo_sums[std::size_t(merge_sources[k]) * width + i];
            }
            add_to_row(product, row + i, sum);
        }
    });
    if (remainder.nnz > 0) remainder.spmv(remainder_product(product));
}

#define INSTANTIATE(T)       \
    template struct Tsmv<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Tsmv, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
