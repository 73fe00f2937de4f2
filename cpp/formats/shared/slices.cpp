#include "formats/shared/slices.hpp"

namespace spmvgpu {

int choose_warps_per_slice(index_t slices, std::int64_t slots, std::int64_t widest, int processors) {
    // Share slices among warps until each has few columns left to walk, or the device has its fill of warps: one round
    // of them where latency rules, several where bandwidth does. Whatever their number, leave none a very wide slice.
    constexpr std::int64_t kLarge = 3'000'000;
    constexpr double kMaxColumnsPerWarp = 64;
    const bool large = slots >= kLarge;
    const double columns_per_warp = large ? 6 : 3, warps_per_processor = large ? 256 : 64;
    const double width = static_cast<double>(slots) / std::max(static_cast<double>(slices), 1.0) / kSliceLanes;
    int warps = 1;
    while (warps < 32 && ((warps * columns_per_warp < width &&
                           warps * static_cast<double>(slices) < warps_per_processor * processors) ||
                          warps * kMaxColumnsPerWarp < static_cast<double>(widest))) {
        warps *= 2;
    }
    return warps;
}

}  // namespace spmvgpu
