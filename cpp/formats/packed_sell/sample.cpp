#include "formats/packed_sell/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "formats/packed_sell/values.hpp"

namespace spmvgpu::packed {

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

std::vector<CommonPart> find_common_parts(const std::vector<PartKey>& sample) {
    constexpr std::size_t kMost = 64;              // parts
    constexpr std::int64_t kMostBytes = 16 << 10;  // of one: what is larger leaves the L1 again
    std::vector<std::int64_t> order(sample.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return sample[a] < sample[b]; });
    struct Group {
        std::int64_t first, count;
    };
    std::vector<Group> groups;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i == 0 || !(sample[order[i]] == sample[order[i - 1]])) groups.push_back({order[i], 0});
        ++groups.back().count;
    }
    std::erase_if(groups, [&](const Group& group) {
        const std::int64_t bytes = sample[group.first].bytes;
        return group.count == 1 || bytes == 0 || bytes > kMostBytes;
    });
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.count > b.count; });
    if (groups.size() > kMost) groups.resize(kMost);
    std::vector<CommonPart> parts;
    std::int64_t position = 0;
    for (const Group& group : groups) {
        parts.push_back({sample[group.first], group.first, position});
        position += parts.back().key.bytes / kGranule;
    }
    return parts;
}

#define INSTANTIATE(T)                                              \
    template std::vector<T> find_dictionary(const std::vector<T>&); \
    template Real<T> find_scale(const std::vector<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::packed
