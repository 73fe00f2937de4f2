// Lower bounds of the time of a product, for a matrix that suits the format as well as its features allow.
#include <algorithm>
#include <limits>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "core/value_types.hpp"
#include "planning/roofline.hpp"

namespace spmvgpu::roofline {

namespace {

// With long rows a format stores less per entry than for the band, because its data per row, or for the diagonal, weigh
// little there.
constexpr index_t kBandRows = 8192, kDiagonals = 9;
constexpr double kLess = 0.85;

// A format with this many times more slots than entries is slower than formats that store only entries; a small number
// of slots takes no time in any case.
constexpr double kMostSlots = 8, kFewSlots = 1 << 20;

template <class T>
CsrMatrix<T> band_of_blocks(index_t block) {
    const index_t block_rows = kBandRows / block, half = kDiagonals / 2;
    HostVector<index_t> offsets = {0}, cols;
    for (index_t i = 0; i < block_rows; ++i) {
        const index_t begin = std::max(i - half, 0) * block, end = std::min(i + half + 1, block_rows) * block;
        for (index_t r = 0; r < block; ++r) {
            for (index_t col = begin; col < end; ++col) cols.push_back(col);
            offsets.push_back(static_cast<index_t>(cols.size()));
        }
    }
    const index_t rows = block_rows * block, nnz = offsets.back();
    const HostVector<T> values(nnz, T(1));
    return {rows, rows, nnz, Array<index_t>::from(offsets), Array<index_t>::from(cols), Array<T>::from(values)};
}

}  // namespace

template <class T>
Amount ModelOf<T>::of_band(const std::string& format, index_t block, const Target& target) const {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = bands_.try_emplace({format, block, target.processors});
    if (is_new) {
        const CsrMatrix<T> band = band_of_blocks<T>(block);
        try {
            const Cost cost = plan_matrix(band, format, {}, target).cost;
            found->second = {double(cost.bytes) / band.nnz, double(cost.slots) / band.nnz};
        } catch (const FormatError&) {
        }
    }
    return found->second;
}

template <class T>
double ModelOf<T>::least_time_us(const Subject& subject, const std::string& format, Device device) const {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    double least = kNever;
    with_format<T>(format, [&]<class Format>() {
        if constexpr (Format::kTraits.only_if_asked) {
            least = 0;
        } else {
            using Model = FormatModel<Format>;
            const Features& features = subject.features;
            typename Format::Plan plan;
            if (Model::least_slots(features, plan) > std::max(kMostSlots * features.nnz, kFewSlots)) return;
            if (!Model::may_hold(features)) return;
            const Amount band = of_band(format, Model::block(features), {device, subject.machine.processors});
            const bool is_half = band.slots < 1;  // half of a symmetric matrix
            Model::each_choice(features, plan, [&] {
                const double slots = Model::least_slots(features, plan);
                const Amount stored{kLess * slots * band.bytes, is_half ? kLess * slots * band.slots : slots};
                least = std::min(least, time_of<Format>(subject, stored, plan).us);
            });
        }
    });
    return least;
}

template <class T>
bool ModelOf<T>::has_costs(const std::string& format) const {
    bool measured = false;
    with_format<T>(format, [&]<class Format>() { measured = FormatModel<Format>::kIsMeasured; });
    return measured;
}

#define INSTANTIATE(T) template class ModelOf<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::roofline
