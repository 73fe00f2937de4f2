#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/csr/build.hpp"
#include "formats/csr/layout.hpp"
#include "formats/host_build.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

namespace csr_choice {

// The lanes of a row read about this many entries each: where latency rules fewer, so that a row is done in one go.
int choose_lanes(double mean_row_length, index_t nnz) {
    const double entries_per_lane = nnz < kLarge ? 2.5 : 4;
    const auto lanes = static_cast<unsigned>(std::ceil(std::max(1.0, mean_row_length / entries_per_lane)));
    return static_cast<int>(std::min(32u, std::bit_ceil(lanes)));
}

int choose_tile(index_t nnz, double mean_row_length, int processors, int value_bytes) {
    // The largest tile that gives every multiprocessor some blocks to overlap, and a block not many more rows than
    // threads. Blocks of large tiles are there for longer, so there are to be more of them.
    constexpr double kRowsPerTile = 512;
    const auto least_blocks = [processors](int tile) { return (tile > 1024 ? 16 : 8) * processors; };
    int tile = value_bytes > 8 ? 2048 : 4096;  // its products lie in shared memory
    while (tile > 256 && (nnz / tile < least_blocks(tile) || tile > kRowsPerTile * mean_row_length)) tile /= 2;
    return tile;
}

}  // namespace csr_choice

std::vector<Options> CsrTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t tile : {2048, 1024, 512, 256, 4096}) list.push_back({{"kernel", "balanced"s}, {"tile", tile}});
    for (std::int64_t lanes : {8, 4, 16, 2, 32, 1}) list.push_back({{"kernel", "shuffle"s}, {"lanes_per_row", lanes}});
    return list;
}

SPMVGPU_BUILD_ON_HOST(Csr)

template <class T>
void Csr<T>::spmv(const Product<T>& product) const {
    spmv_by_rows_and_nonzeros(rows, row_offsets.data(), product, [this](index_t begin, index_t end, const T* x) {
        return sum_products(values.data(), begin, end, [&](index_t k) { return x[col_indices[k]]; });
    });
}

template <class T>
void Csr<T>::multiply_panel(const Product<T>& product) const {
    multiply_panel_by_rows(rows, row_offsets.data(), values.data(), col_indices.data(), product);
}

#define INSTANTIATE(T) template struct Csr<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
