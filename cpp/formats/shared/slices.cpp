#include "formats/shared/slices.hpp"

#include <limits>

#include "formats/padding.hpp"

namespace spmvgpu {

SliceTimes::SliceTimes(const SliceKernel& kernel, const Features& features, int item_bytes, const Target& target)
    : kernel_(kernel),
      is_for_gpu_(target.device.is_gpu()),
      features_(features),
      work_(features_, item_bytes, {.processors = target.processors}) {}

double SliceTimes::operator()(const Slices& slices) const {
    const auto slots = static_cast<double>(slices.slots);
    const bool is_sorted = slices.sigma > 1;
    constexpr double kRefused = 1e9;
    if (!padding_is_allowed(slices.slots * kernel_.block * kernel_.block, features_.nnz, kernel_.max_padding))
        return kRefused * slots;
    if (!is_for_gpu_) return is_sorted ? kernel_.worth_sorting * slots : slots;
    const double of_rows = is_sorted ? sizeof(index_t) * double(features_.rows) / kernel_.block : 0;
    return fastest(slices, slots * kernel_.slot_bytes + of_rows).first;
}

std::pair<double, int> SliceTimes::fastest(const Slices& slices, double bytes) const {
    std::pair best(std::numeric_limits<double>::infinity(), 1);
    const auto try_warps = [&](int warps) {
        const times::Slicing slicing{.bytes = bytes,
                                     .slots = static_cast<double>(slices.slots),
                                     .widest = static_cast<double>(slices.widest),
                                     .block = kernel_.block,
                                     .warps = warps,
                                     .is_sorted = slices.sigma > 1,
                                     .in_flight = kernel_.in_flight};
        best = std::min(best, {times::time_us(work_.by_slices(slicing), kernel_.costs, work_.machine), warps});
    };
    if (kernel_.asked_warps > 0) {
        try_warps(kernel_.asked_warps);
    } else {
        for (int warps = 1; warps <= kernel_.most_warps; warps *= 2) try_warps(warps);
    }
    return best;
}

}  // namespace spmvgpu
