#include "formats/packed_sell/sample.hpp"

#include <algorithm>
#include <bit>

#include "formats/packed_sell/values.hpp"

namespace spmvgpu::packed {

template <class T>
std::vector<T> find_dictionary(const std::vector<T>& sample) {
    constexpr std::size_t kWorthHaving = 8;  // values served per dictionary entry that make a dictionary worthwhile
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

#define INSTANTIATE(T) template std::vector<T> find_dictionary(const std::vector<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::packed
