#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/cuda/pool.hpp"
#include "gpu/memory.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu::gpu {

namespace {

// The fraction of a device's memory that a pool keeps at most, because other libraries cannot use it.
constexpr std::uint64_t kKeptFraction = 8;

// The fraction of a device's memory that is freed together. Queued work may still use such memory, so the device is
// waited for first. That takes as long as a short pass over a matrix, and holds up the threads of all GPUs of a
// process.
constexpr std::uint64_t kAwaitedFraction = 256;

struct Awaited {
    std::vector<void*> blocks;
    std::uint64_t bytes = 0;
};

// Scratch memory up to the first size is kept for its stream, up to the second size together, where it can be used
// again at once. For the pool to give and take it takes the host as long as to launch a pass, and threads of several
// GPUs wait for each other there.
constexpr std::size_t kSmallScratch = 1 << 20, kMostIdleScratch = 16 << 20;

struct IdleScratch {
    std::map<std::size_t, std::vector<void*>> blocks;  // by size
    std::size_t bytes = 0;
};

// The memory of one device. The driver puts memory together from free pieces, and maps it again for every GPU that may
// access the pool. So scratch memory gets a pool that no other GPU may access, as soon as one may access the first
// pool.
class DevicePool {
public:
    explicit DevicePool(int ordinal) : ordinal_(ordinal) {
        int has_pools = 0;
        check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal), "cudaDeviceGetAttribute");
        if (!has_pools) return;
        const DeviceGuard guard(ordinal);
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        most_awaited_ = total_memory() / kAwaitedFraction;
        scratch_memory_ = memory_ = make_pool();
    }

    int ordinal() const { return ordinal_; }
    // Null where the device has no pools, and cudaMalloc instead.
    cudaMemPool_t memory() const { return memory_; }
    cudaMemPool_t scratch_memory() const { return scratch_memory_; }
    // For allocations that no stream orders.
    cudaStream_t stream() const { return stream_; }

    void separate_scratch() {
        const std::lock_guard lock(mutex_);
        if (scratch_memory_ != memory_) return;
        const DeviceGuard guard(ordinal_);
        scratch_memory_ = make_pool();
    }

    void leave() { is_left_ = true; }
    bool is_left() const { return is_left_; }

    // Keeps memory until much of it is there, which it then returns to be freed.
    Awaited add_awaited(void* block, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        awaited_.blocks.push_back(block);
        awaited_.bytes += bytes;  // as the pool counts what is in use
        return awaited_.bytes > most_awaited_ ? std::exchange(awaited_, {}) : Awaited{};
    }
    // That memory, and all idle scratch memory.
    Awaited take_idle() {
        const std::lock_guard lock(mutex_);
        Awaited idle = std::exchange(awaited_, {});
        for (auto& [stream, scratch] : std::exchange(scratch_, {})) {
            for (auto& [size, blocks] : scratch.blocks) {
                idle.blocks.insert(idle.blocks.end(), blocks.begin(), blocks.end());
            }
        }
        return idle;
    }
    std::uint64_t idle_bytes() {
        const std::lock_guard lock(mutex_);
        std::uint64_t bytes = awaited_.bytes;
        for (const auto& [stream, idle] : scratch_) bytes += idle.bytes;
        return bytes;
    }

    // Null if none of this size is idle.
    void* take_scratch(std::size_t bytes, Stream stream) {
        const std::lock_guard lock(mutex_);
        IdleScratch& idle = scratch_[stream];
        const auto found = idle.blocks.find(bytes);
        if (found == idle.blocks.end() || found->second.empty()) return nullptr;
        void* const block = found->second.back();
        found->second.pop_back();
        idle.bytes -= bytes;
        return block;
    }
    // Returns false if it is to be freed.
    bool keep_scratch(void* block, std::size_t bytes, Stream stream) {
        const std::lock_guard lock(mutex_);
        IdleScratch& idle = scratch_[stream];
        if (bytes > kSmallScratch || idle.bytes + bytes > kMostIdleScratch) return false;
        idle.blocks[bytes].push_back(block);
        idle.bytes += bytes;
        return true;
    }

private:
    cudaMemPool_t make_pool() const {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, ordinal_};
        cudaMemPool_t pool = nullptr;
        check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
        std::uint64_t kept = total_memory() / kKeptFraction;
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
        return pool;
    }

    // The number of bytes that the current device has.
    static std::size_t total_memory() {
        std::size_t free = 0, total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return total;
    }

    const int ordinal_;
    cudaMemPool_t memory_ = nullptr;
    std::atomic<cudaMemPool_t> scratch_memory_ = nullptr;
    cudaStream_t stream_ = nullptr;
    std::uint64_t most_awaited_ = 0;
    std::atomic<bool> is_left_ = false;
    Mutex mutex_;
    Awaited awaited_;
    std::map<Stream, IdleScratch> scratch_;
};

// The pools of all devices, each made when it is first asked for. Threads of different devices do not wait for each
// other here.
class DevicePools {
public:
    DevicePool* known(int ordinal) const { return pools_.at(ordinal).load(); }
    DevicePool& of(int ordinal) {
        DevicePool* pool = known(ordinal);
        if (pool != nullptr) return *pool;
        const std::lock_guard lock(making_);
        pool = known(ordinal);
        if (pool == nullptr) pools_[ordinal] = pool = new DevicePool(ordinal);
        return *pool;
    }

private:
    Mutex making_;
    std::vector<std::atomic<DevicePool*>> pools_ = std::vector<std::atomic<DevicePool*>>(device_count());
};

DevicePools& pools() {
    static DevicePools* const instance = new DevicePools;  // never destroyed: at exit the driver goes first
    return *instance;
}

// Null if the pool cannot grow: it does so in larger steps than the driver itself allocates.
void* take(std::size_t bytes, int ordinal, cudaMemPool_t pool, cudaStream_t stream) {
    void* pointer = nullptr;
    cudaError_t status = cudaMallocFromPoolAsync(&pointer, bytes, pool, stream);
    if (status == cudaErrorMemoryAllocation) {  // idle memory may be in pieces that are too small
        cudaGetLastError();
        release_idle_memory(ordinal);
        status = cudaMallocFromPoolAsync(&pointer, bytes, pool, stream);
    }
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return nullptr;
    }
    check(status, "cudaMallocFromPoolAsync");
    return pointer;
}

std::shared_ptr<void> take_from_driver(std::size_t bytes, int ordinal) {
    void* pointer = nullptr;
    const cudaError_t status = cudaMalloc(&pointer, bytes);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        throw OutOfMemory(Device{ordinal}.name(), bytes, memory(ordinal).free);
    }
    check(status, "cudaMalloc");
    return {pointer, [](void* memory) {
                const RelaxedCaptures relaxed;
                cudaFree(memory);
            }};
}

// Waits for the device, as cudaFree does, because work that is queued on any stream may use the memory.
void free_after_work(const Awaited& awaited, const DevicePool& pool) {
    if (awaited.blocks.empty()) return;
    const DeviceGuard guard(pool.ordinal());
    const RelaxedCaptures relaxed;
    synchronize_device(pool.ordinal());
    for (void* const block : awaited.blocks) check(cudaFreeAsync(block, pool.stream()), "cudaFreeAsync");
}

// At the exit of the process memory is not freed.
void give_back(void* memory, std::size_t bytes, DevicePool& pool) noexcept {
    try {
        free_after_work(pool.add_awaited(memory, bytes), pool);
    } catch (const CudaError&) {
    }
}

std::set<cudaMemPool_t> memory_of(const DevicePool& pool) {
    if (pool.memory() == nullptr) return {};
    return {pool.memory(), pool.scratch_memory()};
}

std::size_t read(const DevicePool& pool, cudaMemPoolAttr attribute) {
    std::size_t sum = 0;
    for (const cudaMemPool_t memory : memory_of(pool)) {
        std::uint64_t value = 0;
        check(cudaMemPoolGetAttribute(memory, attribute, &value), "cudaMemPoolGetAttribute");
        sum += value;
    }
    return sum;
}

}  // namespace

std::shared_ptr<void> allocate(std::size_t bytes, int ordinal) {
    const DeviceGuard guard(ordinal);
    DevicePool& pool = pools().of(ordinal);
    const bool has_pool = pool.memory() != nullptr && !pool.is_left();
    void* const pointer = has_pool ? take(bytes, ordinal, pool.memory(), pool.stream()) : nullptr;
    if (pointer == nullptr) return take_from_driver(bytes, ordinal);
    std::shared_ptr<void> owner(pointer, [bytes, &pool](void* memory) { give_back(memory, bytes, pool); });
    check(cudaStreamSynchronize(pool.stream()), "cudaStreamSynchronize");  // for use on every stream
    return owner;
}

std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream) {
    if (bytes == 0) return {};
    const DeviceGuard guard(ordinal);
    DevicePool& pool = pools().of(ordinal);
    if (pool.memory() == nullptr) return take_from_driver(bytes, ordinal);
    constexpr std::size_t kSmallestScratch = 512;
    const std::size_t size = bytes > kSmallScratch ? bytes : std::bit_ceil(std::max(bytes, kSmallestScratch));
    void* pointer = pool.take_scratch(size, stream);
    if (pointer == nullptr) pointer = take(size, ordinal, pool.scratch_memory(), native(stream));
    if (pointer == nullptr) return take_from_driver(bytes, ordinal);
    return {pointer, [size, stream, &pool](void* memory) {
                if (pool.keep_scratch(memory, size, stream)) return;
                const RelaxedCaptures relaxed;
                cudaFreeAsync(memory, native(stream));
            }};
}

std::size_t idle_bytes(int ordinal) {
    DevicePool* const pool = pools().known(ordinal);
    if (pool == nullptr) return 0;
    const std::size_t reserved = read(*pool, cudaMemPoolAttrReservedMemCurrent);
    const std::size_t used = read(*pool, cudaMemPoolAttrUsedMemCurrent);
    return (reserved > used ? reserved - used : 0) + pool->idle_bytes();
}

void release_idle_memory(int ordinal) {
    DevicePool* const pool = pools().known(ordinal);
    if (pool == nullptr || pool->memory() == nullptr) return;
    const DeviceGuard guard(ordinal);
    free_after_work(pool->take_idle(), *pool);
    check(cudaStreamSynchronize(pool->stream()),
          "cudaStreamSynchronize");  // memory that was freed there counts as used until then
    for (const cudaMemPool_t memory : memory_of(*pool)) check(cudaMemPoolTrimTo(memory, 0), "cudaMemPoolTrimTo");
}

void leave_pool(int ordinal) { pools().of(ordinal).leave(); }

void share_pool(int ordinal, int other) {
    DevicePool& pool = pools().of(other);
    if (pool.memory() == nullptr) return;
    const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, ordinal}, cudaMemAccessFlagsProtReadWrite};
    check(cudaMemPoolSetAccess(pool.memory(), &access, 1), "cudaMemPoolSetAccess");
    pool.separate_scratch();
}

}  // namespace spmvgpu::gpu
