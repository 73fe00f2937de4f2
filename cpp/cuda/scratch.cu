#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <limits>
#include <map>

#include "core/mutex.hpp"
#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "cuda/scratch.hpp"

namespace spmvgpu::cuda {

namespace {

// The pools of all devices, each made when it is first asked for. A device without pools has none.
class ScratchPools {
public:
    cudaMemPool_t of(int ordinal) {
        const std::lock_guard lock(mutex_);
        const auto [found, is_new] = pools_.try_emplace(ordinal, nullptr);
        if (is_new) found->second = make(ordinal);
        return found->second;
    }

    cudaMemPool_t known(int ordinal) {
        const std::lock_guard lock(mutex_);
        const auto found = pools_.find(ordinal);
        return found == pools_.end() ? nullptr : found->second;
    }

private:
    static cudaMemPool_t make(int ordinal) {
        int has_pools = 0;
        check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal), "cudaDeviceGetAttribute");
        if (!has_pools) return nullptr;
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, ordinal};
        cudaMemPool_t pool = nullptr;
        check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
        std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
        return pool;
    }

    Mutex mutex_;
    std::map<int, cudaMemPool_t> pools_;
};

ScratchPools& pools() {
    static ScratchPools* const instance = new ScratchPools;  // never destroyed: at exit the driver goes first
    return *instance;
}

}  // namespace

std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream) {
    if (bytes == 0) return {};
    const cudaMemPool_t pool = pools().of(ordinal);
    if (pool == nullptr) return allocate(bytes, ordinal);
    const DeviceGuard guard(ordinal);
    void* pointer = nullptr;
    const cudaError_t status = cudaMallocFromPoolAsync(&pointer, bytes, pool, native(stream));
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        throw OutOfMemory(Device{ordinal}.name(), bytes, memory(ordinal).free);
    }
    check(status, "cudaMallocFromPoolAsync");
    return {pointer, [stream](void* memory) { cudaFreeAsync(memory, native(stream)); }};
}

void drop_scratch(int ordinal) noexcept {
    if (const cudaMemPool_t pool = pools().known(ordinal)) cudaMemPoolTrimTo(pool, 0);
}

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

}  // namespace spmvgpu::cuda
