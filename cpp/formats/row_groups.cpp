#include "formats/row_groups.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace spmvgpu {

namespace {

// For each row, whether its columns are those of the row before.
std::vector<char> find_repeats(const Pattern& pattern) {
    std::vector<char> repeats(pattern.rows, 0);
    const index_t *const offsets = pattern.row_offsets, *const cols = pattern.col_indices;
#pragma omp parallel for num_threads(threads_for(pattern.rows ? offsets[pattern.rows] : 0)) schedule(static)
    for (index_t row = 1; row < pattern.rows; ++row) {
        repeats[row] =
            std::equal(cols + offsets[row - 1], cols + offsets[row], cols + offsets[row], cols + offsets[row + 1]);
    }
    return repeats;
}

template <class Visit>
void for_each_group(const std::vector<char>& repeats, int size, Visit visit) {
    const auto rows = static_cast<index_t>(repeats.size());
    for (index_t begin = 0, end; begin < rows; begin = end) {
        end = begin + 1;
        while (end < rows && end - begin < size && repeats[end]) ++end;
        visit(begin);
    }
}

}  // namespace

RowGroups group_rows(const Pattern& pattern, int size, int value_bytes, int index_bytes) {
    const std::vector<char> repeats = find_repeats(pattern);
    if (size == 0) {
        double least = 0;
        for (int candidate = 1; candidate <= kMaxRowGroup; ++candidate) {
            double entries = 0;
            for_each_group(repeats, candidate,
                           [&](index_t row) { entries += pattern.row_offsets[row + 1] - pattern.row_offsets[row]; });
            const double bytes = entries * (index_bytes + candidate * value_bytes);
            if (candidate == 1 || bytes < least) least = bytes, size = candidate;
        }
    }
    RowGroups groups;
    groups.size = size;
    for_each_group(repeats, size, [&](index_t row) { groups.begins.push_back(row); });
    groups.begins.push_back(pattern.rows);
    return groups;
}

}  // namespace spmvgpu
