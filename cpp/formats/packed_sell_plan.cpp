#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.hpp"
#include "formats/packed_sell.hpp"
#include "formats/packed_sell_encode.hpp"
#include "formats/padding.hpp"
#include "formats/slices_build.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

using namespace packed;

namespace {

// Lanes without an entry take no memory, only time; and rows that are far apart need wider columns.
constexpr double kWorthSorting = 1.25;

// What the matrix has one of for all slots follows from a sample of its values; and a dictionary, or a scale, is worth
// having if it serves at least this part of them.
constexpr index_t kSample = 4096;
constexpr std::size_t kWorthHaving = 8;  // one in so many

// Values from everywhere, the same ones every time: one of every stretch, at a place that keeps no step with the rows.
template <class T>
std::vector<T> sample_values(const CsrMatrix<T>& csr) {
    std::vector<T> sample(std::min(csr.nnz, kSample));
    const auto count = static_cast<std::int64_t>(sample.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = part_begin(csr.nnz, count, i), length = part_begin(csr.nnz, count, i + 1) - begin;
        const std::uint64_t mixed = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) >> 33;
        sample[i] = csr.values[begin + static_cast<std::int64_t>(mixed % static_cast<std::uint64_t>(length))];
    }
    return sample;
}

// The values that come up more than once, the most frequent ones if they are too many.
template <class T>
std::vector<T> find_dictionary(const std::vector<T>& sample) {
    std::vector<Bits<T>> bits(sample.size());
    std::transform(sample.begin(), sample.end(), bits.begin(), [](T value) { return bits_of(value); });
    std::sort(bits.begin(), bits.end());
    struct Entry {
        Bits<T> bits;
        std::size_t count;
    };
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (i == 0 || bits[i] != bits[i - 1]) entries.push_back({bits[i], 0});
        ++entries.back().count;
    }
    std::erase_if(entries, [](const Entry& entry) { return entry.count == 1; });
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.count > b.count; });
    if (entries.size() > kDictionarySize) entries.resize(kDictionarySize);
    std::size_t served = 0;
    std::vector<T> dictionary;
    for (const Entry& entry : entries) {
        served += entry.count;
        dictionary.push_back(std::bit_cast<T>(entry.bits));
    }
    return served * kWorthHaving < sample.size() ? std::vector<T>{} : dictionary;
}

// The power of two of which most values are multiples that 16 bits count, the nearest to 1 of several; 0 if it serves
// few of them.
template <class T>
Real<T> find_scale(const std::vector<T>& sample) {
    constexpr int kMostBits = 15, kFarthest = sizeof(Real<T>) == 8 ? 900 : 100;  // far from where bits are lost
    std::vector<int> served(2 * kFarthest + 2);                                  // differences, by exponent
    for (T value : sample) {
        all_parts(value, [&](auto part) {
            if (!std::isnormal(part)) return true;
            const auto bits = std::bit_cast<std::uint64_t>(double(part));
            constexpr int kFraction = 52;
            const int highest = std::ilogb(double(part));
            const int lowest = highest - kFraction + std::countr_zero(bits | std::uint64_t(1) << kFraction);
            const int first = std::max(highest - kMostBits + 1, -kFarthest), last = std::min(lowest, kFarthest);
            if (first > last) return true;
            ++served[first + kFarthest];
            --served[last + kFarthest + 1];
            return true;
        });
    }
    std::partial_sum(served.begin(), served.end(), served.begin());
    int best = 0;
    for (int exponent = -kFarthest; exponent <= kFarthest; ++exponent) {
        const int more = served[exponent + kFarthest] - served[best + kFarthest];
        if (more > 0 || (more == 0 && std::abs(exponent) < std::abs(best))) best = exponent;
    }
    const bool serves = served[best + kFarthest] * kWorthHaving >= sample.size() * kParts<T> && !sample.empty();
    return serves ? std::ldexp(Real<T>(1), best) : Real<T>(0);
}

// How many slots have which modes.
struct ModeCounts {
    std::int64_t index[kIndexModes] = {}, value[kValueModes] = {};
    std::int64_t slots = 0, ragged = 0;

    void add(const Slot& slot) {
        ++index[static_cast<int>(slot.index)];
        ++value[static_cast<int>(slot.value)];
        ++slots;
        ragged += slot.ragged;
    }
    ModeCounts& operator+=(const ModeCounts& other) {
        for (int i = 0; i < kIndexModes; ++i) index[i] += other.index[i];
        for (int i = 0; i < kValueModes; ++i) value[i] += other.value[i];
        slots += other.slots;
        ragged += other.ragged;
        return *this;
    }
    std::int64_t of(ValueMode mode) const { return value[static_cast<int>(mode)]; }
};

// Calls visit(slot, entries) for the slots of a slice.
template <class T, class Visit>
void for_each_planned_slot(const CsrMatrix<T>& csr, const Slices& slices, index_t s, const ValueCoder<T>& coder,
                           const Visit& visit) {
    const index_t first = s * kSliceLanes, end = slice_end(s, csr.rows);
    SliceReader<T> reader(csr, end - first, [&](int lane) { return slices.row_at(first + lane); });
    reader.for_each_slot([&](const SlotEntries<T>& entries) { visit(describe(entries, coder), entries); });
}

// Each warp decodes the words of its slice anew, so more than one pays only where there are so few slices that there
// would be fewer warps than hide what loads take.
int choose_warps_per_slice(index_t slices, int processors) {
    constexpr int kBusyWarps = 24, kMostWarps = 8;
    int warps = 1;
    while (warps < kMostWarps && std::int64_t(slices) * warps < std::int64_t(kBusyWarps) * processors) warps *= 2;
    return warps;
}

// Nanoseconds that choosing modes takes per slot of a lane, and writing as well.
constexpr std::int64_t kNanosecondsPerLane = 4;

}  // namespace

std::vector<Options> PackedSellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t warps : {1, 2, 4, 8, 16, 32}) list.push_back({{"warps_per_slice", warps}});
    return list;
}

template <class T>
PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    Plan plan;
    plan.tuning = tuning;
    HostPasses passes;
    plan.slices = cut_into_slices(passes, csr.rows, csr.nnz, csr.row_offsets.data(), tuning.sigma, kWorthSorting);
    plan.tuning.sigma = plan.slices.sigma;
    plan.cost.slots = plan.slices.slots;  // at most a quarter more will be laid out
    plan.cost.entries = plan.cost.gathers = csr.nnz;
    plan.cost.bytes = csr.bytes() + plan.slices.slots / kLanes * sizeof(std::uint64_t);  // if nothing can be packed
    check_padding(kName, plan.cost, tuning.max_padding, csr.bytes());

    const std::vector<T> sample = sample_values(csr);
    plan.dictionary = find_dictionary(sample);
    plan.scale = find_scale(sample);
    const ValueCoder<T> coder(plan.dictionary, plan.scale);
    const index_t slices = plan.slices.count();
    plan.slice_offsets.assign(slices + std::size_t(1), 0);
    plan.slice_starts.assign(slices + std::size_t(1), 0);
    const auto lay_out = [&](std::int64_t begin, std::int64_t end) {
        ModeCounts counts;
        for (std::int64_t s = begin; s < end; ++s) {
            SliceWriter<T> writer;
            for_each_planned_slot(csr, plan.slices, static_cast<index_t>(s), coder,
                                  [&](const Slot& slot, const SlotEntries<T>& entries) {
                                      counts.add(slot);
                                      writer.add(slot, entries, coder);
                                  });
            writer.close_group();
            plan.slice_offsets[s + 1] = static_cast<index_t>(writer.words());
            plan.slice_starts[s + 1] = writer.granules();
        }
        return counts;
    };
    const auto counts = parallel_sum<ModeCounts>(slices, kNanosecondsPerLane * plan.slices.slots, lay_out);
    std::partial_sum(plan.slice_offsets.begin(), plan.slice_offsets.end(), plan.slice_offsets.begin());
    std::partial_sum(plan.slice_starts.begin(), plan.slice_starts.end(), plan.slice_starts.begin());
    if (counts.of(ValueMode::kDictionary) + counts.of(ValueMode::kKnownConstant) == 0) plan.dictionary.clear();
    if (counts.of(ValueMode::kInt16) == 0) plan.scale = 0;

    plan.cost.slots = counts.slots * kLanes;
    plan.cost.bytes = plan.slice_starts.back() * kGranule + plan.slice_offsets.back() * sizeof(std::uint64_t) +
                      plan.slice_offsets.size() * sizeof(index_t) + plan.dictionary.size() * sizeof(T) +
                      plan.slices.permutation.bytes();
    plan.cost.stores_in_order = plan.slices.permutation.size() == 0;
    if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
    constexpr const char* kIndexNames[] = {"index_shared", "index_8", "index_16", "index_32"};
    constexpr const char* kValueNames[] = {"values_full",       "values_narrow",   "values_int16",
                                           "values_dictionary", "values_constant", "values_known_constant"};
    for (int i = 0; i < kIndexModes; ++i) plan.cost.counts[kIndexNames[i]] = static_cast<double>(counts.index[i]);
    for (int i = 0; i < kValueModes; ++i) plan.cost.counts[kValueNames[i]] = static_cast<double>(counts.value[i]);
    plan.cost.counts["ragged"] = static_cast<double>(counts.ragged);
    if (tuning.warps_per_slice == 0) plan.tuning.warps_per_slice = choose_warps_per_slice(slices, target.processors);
    return plan;
}

template <class T>
PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    PackedSell packed;
    packed.rows = csr.rows;
    packed.cols = csr.cols;
    packed.nnz = csr.nnz;
    packed.slices = plan.slices.count();
    packed.slice_offsets = Array<index_t>::from(plan.slice_offsets);
    packed.words = Array<std::uint64_t>(plan.slice_offsets.back());
    packed.stream = Array<Byte>(plan.slice_starts.back() * kGranule);
    packed.dictionary = Array<T>::from(plan.dictionary);
    packed.permutation = plan.slices.permutation;
    packed.scale = plan.scale;
    packed.tuning = plan.tuning;
    const ValueCoder<T> coder(plan.dictionary, plan.scale);
    parallel_for(packed.slices, kNanosecondsPerLane * plan.slices.slots, [&](index_t s) {
        SliceWriter<T> writer(packed.words.data() + plan.slice_offsets[s], packed.stream.data(), plan.slice_starts[s]);
        for_each_planned_slot(csr, plan.slices, s, coder, [&](const Slot& slot, const SlotEntries<T>& entries) {
            writer.add(slot, entries, coder);
        });
        writer.close_group();
    });
    return packed;
}

#define INSTANTIATE(T)                                                                                           \
    template PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>&, const PackedSellTuning&, const Target&); \
    template PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>&, const PackedSellPlan<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
