#include "matrix/index_map.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "core/passes/passes.hpp"

namespace spmvgpu {

IndexMap IndexMap::from(const index_t* indices, std::size_t count) {
    IndexMap result;
    if (count == 0) return result;
    result.first = indices[0];
    for (std::size_t i = 0; i < count; ++i) {
        if (indices[i] == result.first + static_cast<std::int64_t>(i)) continue;
        return {0, Array<index_t>::view(indices, count).to({})};
    }
    return result;
}

void check_index_map(const char* what, const IndexMap& map, index_t count, index_t limit) {
    if (map.scattered() && map.indices.size() != static_cast<std::size_t>(count)) {
        throw std::invalid_argument("a part has " + std::to_string(count) + " " + what + ", but " +
                                    std::to_string(map.indices.size()) + " indices for them");
    }
    bool inside = map.scattered() || (map.first >= 0 && map.first <= limit && count <= limit - map.first);
    if (map.scattered()) {
        inside =
            parallel_sum<std::int64_t>(count, count, [&](std::int64_t begin, std::int64_t end) {
                const auto is_outside = [limit](index_t index) { return index < 0 || index >= limit; };
                return std::int64_t(std::count_if(map.indices.data() + begin, map.indices.data() + end, is_outside));
            }) == 0;
    }
    if (!inside) {
        throw std::invalid_argument("a part's " + std::string(what) + " reach beyond the " + std::to_string(limit) +
                                    " of the matrix");
    }
}

void RowCheck::add(const IndexMap& map, index_t count) {
    if (count == 0) return;
    constexpr index_t kNone = std::numeric_limits<index_t>::max();
    index_t twice = kNone;
    if (map.scattered() && counted_.empty()) {
        counted_ = HostVector<std::uint8_t>(rows_);
        for (const Range& range : ranges_) fill(range);
    }
    const Range own{map.first, map.first + count};
    if (map.scattered()) {
        parallel_for(count, count, [&](std::int64_t i) {
            const std::atomic_ref<std::uint8_t> counted(counted_[map.indices[i]]);
            if (counted.exchange(1, std::memory_order_relaxed) != 0) lower(&twice, map.indices[i]);
        });
    } else if (counted_.empty()) {
        for (const Range& other : ranges_) {
            const index_t shared = std::max(own.begin, other.begin);
            if (shared < std::min(own.end, other.end)) twice = std::min(twice, shared);
        }
        ranges_.push_back(own);
    } else {
        const void* const found = std::memchr(counted_.data() + own.begin, 1, count);
        if (found != nullptr) twice = static_cast<index_t>(static_cast<const std::uint8_t*>(found) - counted_.data());
        fill(own);
    }
    if (twice != kNone) throw std::invalid_argument("row " + std::to_string(twice) + " lies in two parts");
}

void RowCheck::fill(Range range) {
    std::fill(counted_.begin() + range.begin, counted_.begin() + range.end, std::uint8_t(1));
}

void RowCheck::finish() const {
    std::int64_t missing = 0;
    if (counted_.empty()) {
        std::vector<Range> ranges = ranges_;
        std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
        for (const Range& range : ranges) {
            if (range.begin == missing) missing = range.end;
        }
    } else {
        const void* const found = std::memchr(counted_.data(), 0, counted_.size());
        missing = found == nullptr ? rows_ : static_cast<const std::uint8_t*>(found) - counted_.data();
    }
    if (missing < rows_) throw std::invalid_argument("row " + std::to_string(missing) + " lies in no part");
}

}  // namespace spmvgpu
