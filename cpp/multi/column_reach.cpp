#include "multi/column_reach.hpp"

#include <algorithm>
#include <limits>

#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Widest {
    ColumnReach reach{kMost, 0, kMost, -kMost};

    void operator+=(const Widest& other) {
        reach.first = std::min(reach.first, other.reach.first);
        reach.end = std::max(reach.end, other.reach.end);
        reach.low = std::min(reach.low, other.reach.low);
        reach.high = std::max(reach.high, other.reach.high);
    }
};

}  // namespace

template <class Index>
ColumnReach column_reach(std::int64_t rows, const Index* row_offsets, const Index* col_indices) {
    const ColumnReach reach = parallel_sum<Widest>(rows, 4 * rows, [&](std::int64_t begin, std::int64_t end) {
                                  Widest widest;
                                  for (std::int64_t row = begin; row < end; ++row) {
                                      if (row_offsets[row] == row_offsets[row + 1]) continue;
                                      const std::int64_t first = col_indices[row_offsets[row]],
                                                         last = col_indices[row_offsets[row + 1] - 1];
                                      widest += {{first, last + 1, first - row, last - row}};
                                  }
                                  return widest;
                              }).reach;
    return reach.end == 0 ? ColumnReach{} : reach;
}

template ColumnReach column_reach(std::int64_t, const std::int32_t*, const std::int32_t*);
template ColumnReach column_reach(std::int64_t, const std::int64_t*, const std::int64_t*);

}  // namespace spmvgpu
