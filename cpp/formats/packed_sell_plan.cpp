#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

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

// Nanoseconds that choosing modes takes per slot of a lane, and writing as well.
constexpr std::int64_t kNanosecondsPerLane = 4;

// Place i of a sample of `count` out of so many: in stretch i, where it keeps no step with rows or grids.
std::int64_t sample_place(std::int64_t all, std::int64_t count, std::int64_t i) {
    const std::int64_t begin = part_begin(all, count, i), length = part_begin(all, count, i + 1) - begin;
    const std::uint64_t mixed = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) >> 33;
    return begin + static_cast<std::int64_t>(mixed % static_cast<std::uint64_t>(length));
}

// Values from everywhere, the same ones every time.
template <class T>
std::vector<T> sample_values(const CsrMatrix<T>& csr) {
    std::vector<T> sample(std::min(csr.nnz, kSample));
    const auto count = static_cast<std::int64_t>(sample.size());
    for (std::int64_t i = 0; i < count; ++i) sample[i] = csr.values[sample_place(csr.nnz, count, i)];
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

// Lays out one slice after the other.
template <class T>
class SliceSource {
public:
    SliceSource(const CsrMatrix<T>& csr, const Slices& slices, const ValueCoder<T>& coder)
        : csr_(csr), slices_(slices), encoder_(coder) {}

    const ModeCounts& counts() const { return encoder_.counts(); }  // of all slices so far
    // The slice, until the next one is asked for.
    const SliceEncoder<T>& encoded(index_t slice) {
        const index_t first = slice * kSliceLanes, end = slice_end(slice, csr_.rows);
        const SliceReader<T> reader(csr_, end - first, [&](int lane) { return slices_.row_at(first + lane); });
        encoder_.encode(reader);
        return encoder_;
    }

private:
    const CsrMatrix<T>& csr_;
    const Slices& slices_;
    SliceEncoder<T> encoder_;
};

// Bytes as what can be compared and looked up.
std::string_view text_of(const std::vector<Byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Parts of the stream that many slices share.
class CommonParts {
public:
    static constexpr std::int64_t kNone = -1;

    // Those that came up more than once, the most frequent ones first.
    explicit CommonParts(std::vector<std::string> sample) {
        constexpr std::size_t kMost = 64;  // parts
        std::sort(sample.begin(), sample.end());
        struct Part {
            std::size_t at, count;
        };
        std::vector<Part> parts;
        for (std::size_t i = 0; i < sample.size(); ++i) {
            if (i == 0 || sample[i] != sample[i - 1]) parts.push_back({i, 0});
            ++parts.back().count;
        }
        std::erase_if(parts, [&](const Part& part) { return part.count == 1 || sample[part.at].empty(); });
        std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.count > b.count; });
        if (parts.size() > kMost) parts.resize(kMost);
        for (const Part& part : parts) {
            places_.emplace(sample[part.at], static_cast<std::int64_t>(bytes_.size()) / kGranule);
            bytes_.insert(bytes_.end(), sample[part.at].begin(), sample[part.at].end());
        }
    }

    const std::vector<Byte>& bytes() const { return bytes_; }
    std::int64_t granules() const { return static_cast<std::int64_t>(bytes_.size()) / kGranule; }
    // Where one lies, in granules, if there is one like this.
    std::int64_t find(const std::vector<Byte>& part) const {
        const auto found = places_.find(text_of(part));
        return found == places_.end() ? kNone : found->second;
    }

private:
    std::map<std::string, std::int64_t, std::less<>> places_;
    std::vector<Byte> bytes_;
};

// Slices from everywhere, the same ones every time, in which most of those are seen that come up often.
template <class T>
CommonParts find_common_parts(const CsrMatrix<T>& csr, const Slices& slices, const ValueCoder<T>& coder) {
    constexpr index_t kMostSlices = 512, kOneIn = 4;
    constexpr std::size_t kMostBytes = 16 << 10;  // of a part that others may share: what is larger leaves the L1 again
    const index_t count = std::min(slices.count() / kOneIn, kMostSlices);
    std::vector<std::string> sample(count);
    const std::int64_t nanoseconds = kNanosecondsPerLane * slices.slots / std::max(slices.count(), 1) * count;
    parallel_ranges(count, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
        SliceSource<T> source(csr, slices, coder);
        for (std::int64_t i = begin; i < end; ++i) {
            const auto slice = static_cast<index_t>(sample_place(slices.count(), count, i));
            const std::vector<Byte>& part = source.encoded(slice).bytes();
            if (part.size() <= kMostBytes) sample[i] = text_of(part);
        }
    });
    return CommonParts(std::move(sample));
}

// More than one warp per slice pays only where there are so few slices that there would be fewer warps than hide what
// loads take: each warp of a slice reads its heads anew.
int choose_warps_per_slice(index_t slices, int processors) {
    constexpr int kBusyWarps = 32, kMostWarps = 8;
    int warps = 1;
    while (warps < kMostWarps && std::int64_t(slices) * warps < std::int64_t(kBusyWarps) * processors) warps *= 2;
    return warps;
}

}  // namespace

std::vector<Options> PackedSellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t warps : {1, 2, 4, 8}) list.push_back({{"warps_per_slice", warps}});
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
    plan.cost.bytes = csr.bytes() + plan.slices.slots / kLanes * sizeof(std::int32_t);  // if nothing can be packed
    check_padding(kName, plan.cost, tuning.max_padding, csr.bytes());

    const std::vector<T> sample = sample_values(csr);
    plan.dictionary = find_dictionary(sample);
    plan.scale = find_scale(sample);
    const ValueCoder<T> coder(plan.dictionary, plan.scale);
    const index_t slices = plan.slices.count();
    const CommonParts common = find_common_parts(csr, plan.slices, coder);
    plan.common = common.bytes();
    plan.heads.resize(slices);
    HostVector<std::int64_t> granules(slices);  // of its own, that a slice takes
    const auto lay_out = [&](std::int64_t begin, std::int64_t end) {
        SliceSource<T> source(csr, plan.slices, coder);
        std::int64_t alike = 0;
        for (std::int64_t s = begin; s < end; ++s) {
            const SliceEncoder<T>& encoded = source.encoded(static_cast<index_t>(s));
            const std::int64_t place = common.find(encoded.bytes());
            Head head = encoded.head();
            if (place != CommonParts::kNone) head.position = static_cast<std::uint64_t>(place);
            plan.heads[s] = words_of(head);
            granules[s] = place == CommonParts::kNone ? encoded.granules() : 0;
            alike += place != CommonParts::kNone;
        }
        ModeCounts counts = source.counts();
        counts.alike = alike;
        return counts;
    };
    const auto counts = parallel_sum<ModeCounts>(slices, kNanosecondsPerLane * plan.slices.slots, lay_out);
    plan.granules = common.granules();
    for (index_t s = 0; s < slices; ++s) {
        if (granules[s] == 0) continue;
        plan.heads[s].rest += static_cast<std::uint64_t>(plan.granules);  // from position 0
        plan.granules += granules[s];
    }
    if (counts.of(ValueMode::kDictionary) == 0) plan.dictionary.clear();
    if (counts.of(ValueMode::kInt16) == 0) plan.scale = 0;

    plan.cost.slots = counts.slots * kLanes;
    plan.cost.bytes = plan.granules * kGranule + plan.heads.size() * sizeof(HeadWords) +
                      plan.dictionary.size() * sizeof(T) + plan.slices.permutation.bytes();
    plan.cost.stores_in_order = plan.slices.permutation.size() == 0;
    if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
    constexpr const char* kIndexNames[] = {"index_shared", "index_masks", "index_8", "index_16", "index_32"};
    constexpr const char* kValueNames[] = {"values_constant", "values_full", "values_narrow", "values_int16",
                                           "values_dictionary"};
    for (int i = 0; i < kIndexModes; ++i) plan.cost.counts[kIndexNames[i]] = static_cast<double>(counts.index[i]);
    for (int i = 0; i < kValueModes; ++i) plan.cost.counts[kValueNames[i]] = static_cast<double>(counts.value[i]);
    plan.cost.counts["ragged"] = static_cast<double>(counts.ragged);
    plan.cost.counts["slices_alike"] = static_cast<double>(counts.alike);
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
    packed.heads = Array<std::uint64_t>(kHeadWords * plan.heads.size());
    copy_bytes(packed.heads.data(), {}, plan.heads.data(), {}, packed.heads.bytes());
    packed.stream = Array<Byte>(plan.granules * kGranule);
    std::copy(plan.common.begin(), plan.common.end(), packed.stream.begin());
    packed.dictionary = Array<T>::from(plan.dictionary);
    packed.permutation = plan.slices.permutation;
    packed.scale = plan.scale;
    packed.tuning = plan.tuning;
    const ValueCoder<T> coder(plan.dictionary, plan.scale);
    const auto write = [&](std::int64_t begin, std::int64_t end) {
        SliceSource<T> source(csr, plan.slices, coder);
        for (std::int64_t s = begin; s < end; ++s) {
            const auto start = static_cast<std::int64_t>(head_of(plan.heads[s]).position) * kGranule;
            if (start < static_cast<std::int64_t>(plan.common.size())) continue;  // a part that is there already
            const std::vector<Byte>& bytes = source.encoded(static_cast<index_t>(s)).bytes();
            std::copy(bytes.begin(), bytes.end(), packed.stream.begin() + start);
        }
    };
    parallel_ranges(packed.slices, kNanosecondsPerLane * plan.slices.slots, write);
    return packed;
}

#define INSTANTIATE(T)                                                                                           \
    template PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>&, const PackedSellTuning&, const Target&); \
    template PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>&, const PackedSellPlan<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
