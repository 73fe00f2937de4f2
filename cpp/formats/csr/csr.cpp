#include <algorithm>
#include <limits>

#include "formats/csr/build.hpp"
#include "formats/csr/layout.hpp"
#include "formats/host_build.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"
#include "formats/times.hpp"

namespace spmvgpu {

namespace csr_choice {

times::Terms terms_of(const times::Work& work, const CsrTuning& tuning) {
    if (tuning.kernel == CsrKernel::kShuffle) return work.by_rows(tuning.lanes_per_row);
    if (tuning.kernel == CsrKernel::kShared) return work.by_rows(32);
    if (tuning.kernel == CsrKernel::kHalfWarp) return work.by_rows(16);
    if (tuning.kernel == CsrKernel::kNodes) return work.by_nodes(tuning.lanes_per_row, Node::longest_row(tuning.tile));
    const int tile = tuning.tile;
    const Features& features = work.features;
    return work.by_tiles({.tile = tile,
                          .threads = Tile::threads(tile),
                          .blocks = Tile::blocks(tile, work.item_bytes()),
                          .longest_row = Tile::longest_row(tile, features.rows, features.nnz),
                          .segment = Tile::segment(tile, features.nnz, work.machine.processors)});
}

const times::Terms& costs_of(const CsrTuning& tuning) {
    static constexpr times::Terms kByRows = times::costs({{times::kLaunch, 0.201},
                                                          {times::kMemory, 0.268},
                                                          {times::kCache, 0.19},
                                                          {times::kXMemory, 11},
                                                          {times::kXCache, 6.92},
                                                          {times::kRefetch, 26.6},
                                                          {times::kLines, 2.6},
                                                          {times::kWaves, 0.554},
                                                          {times::kDepth, 0.055},
                                                          {times::kLoads, 0.402},
                                                          {times::kGathers, 0.289}});
    static constexpr times::Terms kTilesOf512 = times::costs({{times::kLaunch, 1.14},
                                                              {times::kCut, 0.6},
                                                              {times::kXStart, 9.51},
                                                              {times::kMemory, 0.328},
                                                              {times::kCache, 0.174},
                                                              {times::kXMemory, 11},
                                                              {times::kXCache, 3.49},
                                                              {times::kEntries, 2.29},
                                                              {times::kHasLong, 0.509},
                                                              {times::kLongRows, 88.2},
                                                              {times::kDepth, 0.848},
                                                              {times::kLoads, 0.461}});
    static constexpr times::Terms kTilesOf1024 = times::costs({{times::kLaunch, 1.36},
                                                               {times::kCut, 0.3},
                                                               {times::kXStart, 6.91},
                                                               {times::kMemory, 0.343},
                                                               {times::kCache, 0.218},
                                                               {times::kXMemory, 12.1},
                                                               {times::kXCache, 3.51},
                                                               {times::kLongRows, 147},
                                                               {times::kHasLong, 1.25},
                                                               {times::kDepth, 0.111},
                                                               {times::kLoads, 0.214},
                                                               {times::kGathers, 0.229}});
    static constexpr times::Terms kTilesOf2048 = times::costs({{times::kLaunch, 1.45},
                                                               {times::kCut, 0.3},
                                                               {times::kXStart, 8.38},
                                                               {times::kMemory, 0.338},
                                                               {times::kCache, 0.198},
                                                               {times::kXMemory, 10.7},
                                                               {times::kXCache, 3.26},
                                                               {times::kEntries, 0.156},
                                                               {times::kLongRows, 196},
                                                               {times::kDepth, 0.541},
                                                               {times::kRounds, 0.339},
                                                               {times::kHasLong, 0.357},
                                                               {times::kLoads, 0.286}});
    static constexpr times::Terms kTilesOf4096 = times::costs({{times::kLaunch, 1.49},
                                                               {times::kCut, 0.2},
                                                               {times::kXStart, 7.57},
                                                               {times::kMemory, 0.344},
                                                               {times::kCache, 0.201},
                                                               {times::kXMemory, 10.3},
                                                               {times::kXCache, 3.38},
                                                               {times::kEntries, 0.156},
                                                               {times::kLongRows, 188},
                                                               {times::kDepth, 0.607},
                                                               {times::kRounds, 0.486},
                                                               {times::kHasLong, 0.24},
                                                               {times::kLoads, 0.219}});
    static constexpr times::Terms kByNodes = times::costs({{times::kLaunch, 0.44},
                                                           {times::kCut, 3},
                                                           {times::kXStart, 7},
                                                           {times::kMemory, 0.293},
                                                           {times::kCache, 0.124},
                                                           {times::kXMemory, 11},
                                                           {times::kXCache, 3},
                                                           {times::kLines, 5.4},
                                                           {times::kWaves, 0.51},
                                                           {times::kLoads, 0.304},
                                                           {times::kGathers, 1.38}});
    if (tuning.kernel == CsrKernel::kNodes) return kByNodes;
    if (tuning.kernel != CsrKernel::kBalanced) return kByRows;
    if (tuning.tile <= 512) return kTilesOf512;
    if (tuning.tile == 1024) return kTilesOf1024;
    return tuning.tile == 2048 ? kTilesOf2048 : kTilesOf4096;
}

CsrTuning fastest(const CsrTuning& asked, const Features& features, int item_bytes, int processors) {
    const times::Work work(features, item_bytes, {.processors = processors});
    const auto best_of = [&](CsrKernel kernel, int CsrTuning::*field, std::initializer_list<int> values) {
        std::pair best(asked.*field, std::numeric_limits<double>::infinity());
        for (const int value : values) {
            CsrTuning tuning = asked;
            if (asked.*field != 0 && value != asked.*field) continue;
            tuning.kernel = kernel;
            tuning.*field = value;
            const double us = times::time_us(terms_of(work, tuning), costs_of(tuning), work.machine);
            if (us < best.second) best = {value, us};
        }
        return best;
    };
    // Smaller tiles were never fastest by more than noise. The products of a tile lie in shared memory.
    const bool holds_large = item_bytes <= 8;
    const auto [lanes, rows_us] = best_of(CsrKernel::kShuffle, &CsrTuning::lanes_per_row, {1, 2, 4, 8, 16, 32});
    const auto [node_lanes, nodes_us] = best_of(CsrKernel::kNodes, &CsrTuning::lanes_per_row, {16, 8, 32});
    const auto [tile, tiles_us] =
        best_of(CsrKernel::kBalanced, &CsrTuning::tile, {1024, 512, 2048, holds_large ? 4096 : 2048});
    constexpr double kWorthSharing = 1.5;
    CsrTuning chosen = asked;
    if (asked.kernel == CsrKernel::kAuto) {
        chosen.kernel = rows_us < tiles_us ? CsrKernel::kShuffle : CsrKernel::kBalanced;
        if (features.node_rows >= kWorthSharing && nodes_us < std::min(rows_us, tiles_us)) {
            chosen.kernel = CsrKernel::kNodes;
        }
    }
    const bool by_nodes = chosen.kernel == CsrKernel::kNodes;
    chosen.lanes_per_row = by_nodes ? node_lanes : lanes;
    chosen.tile = by_nodes && asked.tile == 0 ? Node::kTile : tile;
    return chosen;
}

}  // namespace csr_choice

std::vector<Options> CsrTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t tile : {1024, 512, 2048, 4096}) list.push_back({{"kernel", "balanced"s}, {"tile", tile}});
    for (std::int64_t lanes : {8, 4, 16, 2, 32, 1}) list.push_back({{"kernel", "shuffle"s}, {"lanes_per_row", lanes}});
    for (std::int64_t lanes : {16, 32, 8}) list.push_back({{"kernel", "nodes"s}, {"lanes_per_row", lanes}});
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
