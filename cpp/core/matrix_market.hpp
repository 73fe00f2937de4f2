// The entries of a Matrix Market file: lines of text that become numbers on all threads, or an error that names the
// line that breaks the format. Python reads the banner and the sizes before them.
#pragma once

#include <cstdint>

#include "core/array.hpp"

namespace spmvgpu {

// The numbers on every line with an entry.
struct EntryLines {
    int indices = 2;  // before the value: row and column (2), row only (1), or none (0)
    int values = 1;   // numbers per value: 0 in a pattern, 2 for a complex number
    bool are_whole = false;
    std::int64_t rows = 0;  // indices reach from 1 to these
    std::int64_t cols = 0;
    std::int64_t entries = 0;      // the highest number of entries
    bool rest_is_ignored = false;  // ignores text behind the last entry, which is refused otherwise
};

// Takes the lines of a file block by block. Blank lines and comments may stand anywhere among them.
template <class Index>
class EntryReader {
public:
    // `line` is the number of the first line to come, for messages.
    EntryReader(const EntryLines& lines, std::int64_t line);

    // Reads a block of whole lines; a newline is its last character. Throws std::invalid_argument for the first line
    // that is wrong.
    void read(const char* begin, const char* end);

    std::int64_t entries() const { return found_; }
    bool has_below() const { return has_below_; }  // an entry below the diagonal
    bool has_above() const { return has_above_; }

    // The entries read so far. Row and column numbers count from 0.
    Array<Index> row() const { return part(row_, lines_.indices > 0 ? found_ : 0); }
    Array<Index> col() const { return part(col_, lines_.indices > 1 ? found_ : 0); }
    Array<double> values() const { return part(values_, found_ * lines_.values); }

private:
    template <class T>
    static Array<T> part(const Array<T>& all, std::int64_t size) {
        return Array<T>::share(all.memory(), static_cast<std::size_t>(size));
    }

    struct Piece;
    void parse(Piece& piece);

    EntryLines lines_;
    std::int64_t line_;
    std::int64_t found_ = 0;
    bool has_below_ = false, has_above_ = false;
    Array<Index> row_, col_;
    Array<double> values_;
};

}  // namespace spmvgpu
