#include <limits>

#include "formats/csr/build.hpp"
#include "formats/csr/layout.hpp"
#include "formats/host_build.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"
#include "formats/times.hpp"

namespace spmvgpu {

namespace csr_choice {

namespace {

using namespace times;

constexpr Terms kShuffleCosts = costs({{kLaunch, 0.267},
                                       {kMemory, 0.266},
                                       {kCache, 0.235},
                                       {kXMemory, 0.473},
                                       {kXCache, 7.22},
                                       {kLines, 3.38},
                                       {kRefetch, 14.8},
                                       {kWaves, 0.566},
                                       {kDepth, 0.0644},
                                       {kLoads, 0.279},
                                       {kGathers, 0.542}});

Terms tile_costs(int tile) {
    switch (tile) {
        case 256:
        case 512:
            return costs({{kLaunch, 1.21},
                          {kMemory, 0.268},
                          {kCache, 0.161},
                          {kXMemory, 9.02},
                          {kXCache, 4.95},
                          {kEntries, 2.97},
                          {kHasLong, 0.752},
                          {kLongRows, 43.7},
                          {kLoads, 0.339},
                          {kGathers, 0.0309},
                          {kCut, 0.5},
                          {kXStart, 7.13}});
        case 1024:
            return costs({{kLaunch, 0.997},
                          {kMemory, 0.301},
                          {kCache, 0.246},
                          {kXMemory, 9.06},
                          {kXCache, 4.84},
                          {kEntries, 1.47},
                          {kRounds, 0.321},
                          {kHasLong, 0.554},
                          {kDepth, 0.634},
                          {kLongRows, 45.8},
                          {kLoads, 0.292},
                          {kGathers, 0.0733},
                          {kCut, 0.5},
                          {kXStart, 6.06}});
        case 2048:
            return costs({{kLaunch, 0.933},
                          {kMemory, 0.293},
                          {kCache, 0.22},
                          {kXMemory, 8.8},
                          {kXCache, 4.32},
                          {kEntries, 1.64},
                          {kWaves, 0.439},
                          {kRounds, 0.531},
                          {kHasLong, 0.387},
                          {kDepth, 0.357},
                          {kLongRows, 31.1},
                          {kLoads, 0.106},
                          {kGathers, 0.0147},
                          {kCut, 0.5},
                          {kXStart, 8.4}});
        default:
            return costs({{kLaunch, 0.363},
                          {kMemory, 0.297},
                          {kCache, 0.228},
                          {kXMemory, 7.94},
                          {kXCache, 4.32},
                          {kEntries, 1.41},
                          {kWaves, 1.3},
                          {kRounds, 0.541},
                          {kHasLong, 0.31},
                          {kDepth, 0.382},
                          {kLongRows, 42.1},
                          {kLoads, 0.0767},
                          {kXStart, 8.33},
                          {kCut, 0.5}});
    }
}

double time_of(const Work& work, const CsrTuning& tuning) {
    if (tuning.kernel == CsrKernel::kShuffle) return time_us(work.by_rows(tuning.lanes_per_row), kShuffleCosts);
    const Terms terms = work.by_tiles(tuning.tile, Tile::threads(tuning.tile), choose_segment(tuning.tile));
    return time_us(terms, tile_costs(tuning.tile));
}

}  // namespace

CsrTuning fastest(const CsrTuning& asked, const Features& features, int item_bytes, int processors) {
    const Work work(features, item_bytes, {processors});
    const auto best_of = [&](CsrKernel kernel, int CsrTuning::*field, std::initializer_list<int> values) {
        std::pair best(asked.*field, std::numeric_limits<double>::infinity());
        for (const int value : values) {
            CsrTuning tuning = asked;
            if (asked.*field != 0 && value != asked.*field) continue;
            tuning.kernel = kernel;
            tuning.*field = value;
            const double us = time_of(work, tuning);
            if (us < best.second) best = {value, us};
        }
        return best;
    };
    // Smaller tiles were never fastest by more than noise. The products of a tile lie in shared memory.
    const bool holds_large = item_bytes <= 8;
    const auto [lanes, rows_us] = best_of(CsrKernel::kShuffle, &CsrTuning::lanes_per_row, {1, 2, 4, 8, 16, 32});
    const auto [tile, tiles_us] =
        best_of(CsrKernel::kBalanced, &CsrTuning::tile, {1024, 512, 2048, holds_large ? 4096 : 2048});
    CsrTuning chosen = asked;
    chosen.lanes_per_row = lanes;
    chosen.tile = tile;
    if (asked.kernel == CsrKernel::kAuto) {
        chosen.kernel = rows_us < tiles_us ? CsrKernel::kShuffle : CsrKernel::kBalanced;
    }
    return chosen;
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
