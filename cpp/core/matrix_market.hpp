// The entries of a Matrix Market file: lines of text that become numbers on all threads, or an error that names the
// line that breaks the format. Python reads the banner and the sizes before them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/array.hpp"

namespace spmvgpu {

// The numbers on every line with an entry.
struct EntryLines {
    std::vector<std::int64_t> lengths;  // rows and columns of a matrix, or rows of a vector; empty in the array format
    int values = 1;                     // numbers per value: 0 in a pattern, 2 for a complex number
    bool are_whole = false;
    std::int64_t entries = 0;      // the highest number of entries
    bool rest_is_ignored = false;  // ignores text behind the last entry, which is refused otherwise
    std::int64_t line = 1;         // number of the first line, for messages
};

// Row and column numbers count from 0.
template <class Index>
struct FileEntries {
    Array<Index> row, col;
    Array<double> values;
};

// Reads whole lines of text. Blank lines and comments may stand anywhere among the entries. Throws
// std::invalid_argument for the first line that is wrong.
template <class Index>
FileEntries<Index> read_entries(const EntryLines& lines, const char* begin, const char* end);

}  // namespace spmvgpu
