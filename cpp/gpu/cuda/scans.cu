#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/pool.hpp"
#include "gpu/cuda/scans.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

template <class T>
void scan_counts(T* counts, std::int64_t n, int ordinal, Stream stream) {
    const DeviceGuard guard(ordinal);
    check(cudaMemsetAsync(counts + n, 0, sizeof(T), native(stream)), "cudaMemsetAsync");
    std::size_t bytes = 0;
    const auto scan = [&](void* memory) {
        check(cub::DeviceScan::ExclusiveSum(memory, bytes, counts, counts, n + 1, native(stream)),
              "cub::DeviceScan::ExclusiveSum");
    };
    scan(nullptr);  // asks for the bytes
    const std::shared_ptr<void> memory = allocate_scratch(std::max<std::size_t>(bytes, 1), ordinal, stream);
    scan(memory.get());
}

template <class Key>
bool sort_pairs(Key* keys, Key* other_keys, index_t* values, index_t* other_values, index_t n, int bits, int ordinal,
                Stream stream) {
    if (n == 0 || bits == 0) return false;
    const DeviceGuard guard(ordinal);
    cub::DoubleBuffer<Key> both_keys(keys, other_keys);
    cub::DoubleBuffer<index_t> both_values(values, other_values);
    std::size_t bytes = 0;
    const auto sort = [&](void* memory) {
        check(cub::DeviceRadixSort::SortPairs(memory, bytes, both_keys, both_values, n, 0, bits, native(stream)),
              "cub::DeviceRadixSort::SortPairs");
    };
    sort(nullptr);  // asks for the bytes
    const std::shared_ptr<void> memory = allocate_scratch(std::max<std::size_t>(bytes, 1), ordinal, stream);
    sort(memory.get());
    return both_values.Current() == other_values;
}

template void scan_counts(index_t*, std::int64_t, int, Stream);
template void scan_counts(std::int64_t*, std::int64_t, int, Stream);
template bool sort_pairs(std::uint32_t*, std::uint32_t*, index_t*, index_t*, index_t, int, int, Stream);
template bool sort_pairs(std::uint64_t*, std::uint64_t*, index_t*, index_t*, index_t, int, int, Stream);

}  // namespace spmvgpu::gpu
