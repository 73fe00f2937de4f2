#include "formats/padding.hpp"

#include <limits>

#include "core/errors.hpp"

namespace spmvgpu {

std::vector<Options> PaddedTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t block_size : {128, 256, 64, 512}) list.push_back({{"block_size", block_size}});
    return list;
}

bool padding_is_allowed(std::int64_t slots, std::int64_t entries, double max_padding) {
    constexpr std::int64_t kAlwaysAllowed = 65536;
    return slots <= kAlwaysAllowed || static_cast<double>(slots) <= max_padding * static_cast<double>(entries);
}

void check_padding(const std::string& format, const Cost& cost, double max_padding, std::size_t csr_bytes) {
    const std::int64_t slots = cost.slots, nnz = cost.entries;
    std::string why;
    if (slots > std::numeric_limits<index_t>::max()) {
        why = std::to_string(slots) + " slots, more than 32-bit positions can count";
    } else if (!padding_is_allowed(slots, nnz, max_padding)) {
        why = format_number(static_cast<double>(slots) / static_cast<double>(nnz)) +
              " slots per non-zero, above max_padding=" + format_number(max_padding);
    } else {
        return;
    }
    throw FormatError("format '" + format + "' does not fit this matrix: it would store " + why + " (" +
                      std::to_string(cost.bytes) + " bytes); format 'csr' fits in " + std::to_string(csr_bytes) +
                      " bytes");
}

}  // namespace spmvgpu
