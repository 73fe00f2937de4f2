// The positions of the rows or columns of a part in the whole.
#pragma once

#include <vector>

#include "core/array.hpp"
#include "core/host_vector.hpp"

namespace spmvgpu {

// Next to each other from `first` on, or at indices[i].
struct IndexMap {
    index_t first = 0;
    Array<index_t> indices;  // empty: next to each other

    static IndexMap from(const index_t* indices, std::size_t count);  // of a copy if indices are needed

    bool scattered() const { return indices.size() > 0; }
    index_t operator[](index_t i) const { return scattered() ? indices[i] : first + i; }  // in host memory
};

// Throws std::invalid_argument unless the map has `count` rows or columns (`what`) that all lie below `limit`.
void check_index_map(const char* what, const IndexMap& map, index_t count, index_t limit);

// Checks that every row lies in exactly one part.
class RowCheck {
public:
    explicit RowCheck(index_t rows) : rows_(rows) {}
    void add(const IndexMap& map, index_t count);  // throws std::invalid_argument for a repeated row
    void finish() const;                           // throws std::invalid_argument for a missing row

private:
    // Rows of a part that lie next to each other.
    struct Range {
        index_t begin, end;
    };
    void fill(Range range);

    index_t rows_;
    std::vector<Range> ranges_;         // as long as all parts have one
    HostVector<std::uint8_t> counted_;  // each row, otherwise
};

}  // namespace spmvgpu
