#include "formats/tsmv_build.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "formats/tsmv_entries.hpp"

namespace spmvgpu::tsmv_sources {

template <class T>
Array<index_t> find(const Tsmv<T>& tsmv) {
    const CsrMatrix<T> csr = tsmv.to_csr();
    const index_t* const cols = csr.col_indices.data();
    const auto position = [&](index_t row, index_t col) {
        return static_cast<index_t>(first_not_below(cols, csr.row_offsets[row], csr.row_offsets[row + 1], col));
    };
    const std::size_t places = tsmv.values.size(), all_places = places + tsmv.remainder.nnz;
    Array<index_t> map(2 * all_places);
    index_t *const sources = map.data(), *const mirrors = sources + all_places;
    std::fill(map.begin(), map.end(), kPadding);

    constexpr std::int64_t kNanosecondsPerEntry = 50;
    parallel_for(tsmv.tile_count(), kNanosecondsPerEntry * tsmv.nnz, [&](index_t t) {
        for_each_stored_entry(tsmv, t, [&](index_t row, index_t col, std::size_t index, bool) {
            sources[index] = position(row, col);
            mirrors[index] = position(col, row);
        });
    });

    const Csr<T>& rest = tsmv.remainder;
    // In the remainder too, what lies above the diagonal of blocks is the mirror image of what lies below.
    const auto node_of = [&](index_t row) {
        const auto nodes = static_cast<std::int64_t>(tsmv.node_rows.size());
        return nodes == 0 ? row / tsmv.tuning.block
                          : static_cast<index_t>(first_above(tsmv.node_rows.data(), 0, nodes, row)) - 1;
    };
    parallel_for(rest.rows, kNanosecondsPerEntry * rest.nnz, [&](index_t row) {
        for (index_t k = rest.row_offsets[row]; k < rest.row_offsets[row + 1]; ++k) {
            const index_t col = rest.col_indices[k], here = position(row, col), there = position(col, row);
            const bool is_mirrored = node_of(col) > node_of(row);
            sources[places + k] = is_mirrored ? mirror_of(there) : here;
            mirrors[places + k] = is_mirrored ? here : there;
        }
    });
    return map;
}

#define INSTANTIATE(T) template Array<index_t> find(const Tsmv<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu::tsmv_sources
