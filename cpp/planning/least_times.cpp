// What a product takes at least, of a variant that suits the matrix as well as its features allow.
#include <algorithm>
#include <limits>

#include "core/host_vector.hpp"
#include "core/value_types.hpp"
#include "formats/bsell/layout.hpp"
#include "planning/roofline.hpp"

namespace spmvgpu::roofline {

namespace {

// Of long rows a format stores less per entry than of the band, as what it keeps of every row, or of the diagonal,
// weighs little there.
constexpr index_t kBandRows = 8192, kDiagonals = 9;
constexpr double kLess = 0.85;

// With so many times more slots than entries a format is beaten by those that store none but entries; where there are
// few slots, all of them take no time.
constexpr double kMostSlots = 8, kFewSlots = 1 << 20;

// Of so many rows of few kinds no small sample has different ones alone; and they lie on few diagonals, no more than so
// many times as many as a row has entries.
constexpr index_t kManyRows = 8192;
constexpr double kMostStencils = 8;

// Calls visit(stored) with everything that a plan of a variant may choose and a time depends on.
template <class Visit>
void each_choice(const std::string& variant, Stored stored, const Visit& visit) {
    constexpr int kInOrder = 1, kSorted = 16384;
    const auto each_power_of_two = [&](int& field, int most, const auto& call) {
        for (field = 1; field <= most; field *= 2) call();
    };
    const auto each_slicing = [&](int most_warps) {
        each_power_of_two(stored.warps_per_slice, most_warps, [&] {
            for (const int sigma : {kInOrder, kSorted}) {
                stored.sigma = sigma;
                visit(stored);
            }
        });
    };
    if (variant == "csr kernel=shuffle") {
        each_power_of_two(stored.lanes_per_row, 32, [&] { visit(stored); });
    } else if (variant == "ellr_t") {
        each_power_of_two(stored.threads_per_row, 32, [&] { visit(stored); });
    } else if (variant == "sell" || variant == "packed_sell") {
        each_slicing(32);
    } else if (variant == "bsell") {
        each_slicing(BsellTuning::kMostWarps);
    } else {
        visit(stored);
    }
}

// Slots that a format takes at least: those that store as many of every row as the longest one needs, or as there are
// diagonals, some of which may be mirror images of others, or one for each entry.
double least_slots(const std::string& format, const Features& features) {
    const double rows = features.rows, nnz = features.nnz;
    if (format == "ellpack" || format == "ellpack_r" || format == "ellr_t") {
        return std::max(nnz, rows * features.longest);
    }
    if (format == "dia" || format == "sdia") {
        return std::max(nnz, rows * std::max(features.longest, features.diagonals));
    }
    return nnz;
}

bool rows_differ(const Features& features) {
    return features.rows > kManyRows && (features.different_rows == Features::kFewRows ||
                                         features.diagonals > kMostStencils * std::max(features.mean, 1.0));
}

// The largest block that a matrix of so many rows, columns and entries can consist of.
index_t largest_block(const Features& features) {
    for (const index_t block : BsellTuning::kBlocks) {
        if (features.nnz % (block * block) == 0 && features.rows % block == 0 && features.cols % block == 0)
            return block;
    }
    return 1;
}

}  // namespace

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

double Case::least_time_us(std::size_t variant, Device device) const {
    const Variant& asked = model_->variants().at(variant);
    const Features& features = subject_.features;
    const double slots = least_slots(asked.format, features);
    if (slots > std::max(kMostSlots * features.nnz, kFewSlots)) return std::numeric_limits<double>::infinity();
    if (asked.format == "stencil" && rows_differ(features)) return std::numeric_limits<double>::infinity();
    const bool has_blocks = asked.format == "bsell";
    const Stored band =
        model_->of_band(asked.format, has_blocks ? largest_block(features) : 1, {device, subject_.machine.processors});
    const bool is_half = band.slots < 1;  // of a symmetric matrix
    Stored stored;
    stored.block = band.block;
    double least = std::numeric_limits<double>::infinity();
    each_choice(asked.name, stored, [&](Stored& chosen) {
        // Of slices in order it is known how many slots they take.
        const bool is_known = asked.format == "sell" && chosen.sigma == 1;
        const double taken = is_known ? std::max(slots, Features::kWarp * features.warp_steps[0]) : slots;
        chosen.bytes = kLess * taken * band.bytes;
        chosen.slots = is_half ? kLess * taken * band.slots : taken;
        least = std::min(least, asked.time_us(terms_of(asked.name, subject_, chosen)));
    });
    return least * corrections_[variant];
}

#define INSTANTIATE(T) template CsrMatrix<T> band_of_blocks(index_t);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::roofline
