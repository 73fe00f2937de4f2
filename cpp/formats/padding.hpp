// Tunables and refusal of all padded formats.
#pragma once

#include <cstdint>
#include <string>

#include "formats/format.hpp"

namespace spmvgpu {

struct PaddedTuning {
    int block_size = 128;      // CUDA: threads per block (Yin et al. 2012, section 5.3)
    double max_padding = 4.0;  // refuse to store more slots than this per non-zero

    template <class Self, class Visit>
    static void each_param(Self& self, Visit&& visit) {
        visit("block_size", self.block_size, OneOf{64, 128, 256, 512});
        visit("max_padding", self.max_padding, Range{1.0, 1e6});
    }

    static std::vector<Options> candidates();
};

// Slots from one column of slots to the next: whole groups of 32, so that every column begins on a 128-byte line and
// the lanes of a warp read aligned neighbours.
constexpr std::int64_t aligned_pitch(std::int64_t slots) { return (slots + 31) / 32 * 32; }

// Returns true if this many slots for this many entries are accepted. Below some ten thousand slots they always are:
// there padding costs nothing worth refusing.
bool padding_is_allowed(std::int64_t slots, std::int64_t entries, double max_padding);

void check_padding(const std::string& format, const Cost& cost, double max_padding, std::size_t csr_bytes);

}  // namespace spmvgpu
