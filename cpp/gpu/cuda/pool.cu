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

// A device without pools has none, and cudaMalloc instead. The driver puts memory together from free pieces, and maps
// it again for every GPU that may access the pool. So scratch memory gets a pool that no other GPU may access, as soon
// as one may access the first pool.
struct Pool {
    cudaMemPool_t memory = nullptr;
    std::atomic<cudaMemPool_t> scratch = nullptr;  // for scratch memory: `memory`, until other GPUs may access that
    cudaStream_t stream = nullptr;                 // for allocations that no stream orders
    std::uint64_t most_awaited = 0;
};

// The pools of all devices, each made when it is first asked for.
class Pools {
public:
    const Pool& of(int ordinal) {
        const std::lock_guard lock(mutex_);
        const auto found = pools_.find(ordinal);
        return found != pools_.end() ? found->second : make(ordinal);
    }

    void separate_scratch(int ordinal) {
        const std::lock_guard lock(mutex_);
        Pool& pool = pools_.at(ordinal);
        if (pool.memory == nullptr || pool.scratch != pool.memory) return;
        const DeviceGuard guard(ordinal);
        pool.scratch = make_pool(ordinal);
    }

    void leave(int ordinal) {
        const std::lock_guard lock(mutex_);
        left_.insert(ordinal);
    }

    bool is_left(int ordinal) {
        const std::lock_guard lock(mutex_);
        return left_.contains(ordinal);
    }

    const Pool* known(int ordinal) {
        const std::lock_guard lock(mutex_);
        const auto found = pools_.find(ordinal);
        return found == pools_.end() || found->second.memory == nullptr ? nullptr : &found->second;
    }

    // Keeps memory until much of it is there, which it then returns to be freed.
    Awaited add_awaited(void* block, std::size_t bytes, int ordinal, const Pool& pool) {
        const std::lock_guard lock(mutex_);
        Awaited& awaited = awaited_[ordinal];
        awaited.blocks.push_back(block);
        awaited.bytes += bytes;  // as the pool counts what is in use
        return awaited.bytes > pool.most_awaited ? std::exchange(awaited, {}) : Awaited{};
    }
    // That memory, and all idle scratch memory.
    Awaited take_idle(int ordinal) {
        const std::lock_guard lock(mutex_);
        Awaited idle = std::exchange(awaited_[ordinal], {});
        for (auto& [size, blocks] : std::exchange(scratch_[ordinal], {})) {
            for (auto& [of_size, of_stream] : blocks.blocks) {
                idle.blocks.insert(idle.blocks.end(), of_stream.begin(), of_stream.end());
            }
        }
        return idle;
    }
    std::uint64_t idle_bytes(int ordinal) {
        const std::lock_guard lock(mutex_);
        std::uint64_t bytes = awaited_[ordinal].bytes;
        for (const auto& [stream, idle] : scratch_[ordinal]) bytes += idle.bytes;
        return bytes;
    }

    // Null if none of this size is idle.
    void* take_scratch(std::size_t bytes, int ordinal, Stream stream) {
        const std::lock_guard lock(mutex_);
        IdleScratch& idle = scratch_[ordinal][stream];
        const auto found = idle.blocks.find(bytes);
        if (found == idle.blocks.end() || found->second.empty()) return nullptr;
        void* const block = found->second.back();
        found->second.pop_back();
        idle.bytes -= bytes;
        return block;
    }
    // Returns false if it is to be freed.
    bool keep_scratch(void* block, std::size_t bytes, int ordinal, Stream stream) {
        const std::lock_guard lock(mutex_);
        IdleScratch& idle = scratch_[ordinal][stream];
        if (bytes > kSmallScratch || idle.bytes + bytes > kMostIdleScratch) return false;
        idle.blocks[bytes].push_back(block);
        idle.bytes += bytes;
        return true;
    }

private:
    const Pool& make(int ordinal) {
        int has_pools = 0;
        check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal), "cudaDeviceGetAttribute");
        if (!has_pools) return pools_[ordinal];
        const DeviceGuard guard(ordinal);
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        const cudaMemPool_t memory = make_pool(ordinal);
        Pool& pool = pools_[ordinal];
        pool.scratch = pool.memory = memory;
        pool.stream = stream;
        pool.most_awaited = total_memory() / kAwaitedFraction;
        return pool;
    }

    static cudaMemPool_t make_pool(int ordinal) {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, ordinal};
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

    Mutex mutex_;
    std::map<int, Pool> pools_;
    std::map<int, Awaited> awaited_;
    std::map<int, std::map<Stream, IdleScratch>> scratch_;
    std::set<int> left_;
};

Pools& pools() {
    static Pools* const instance = new Pools;  // never destroyed: at exit the driver goes first
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
void free_after_work(const Awaited& awaited, int ordinal, const Pool& pool) {
    if (awaited.blocks.empty()) return;
    const DeviceGuard guard(ordinal);
    const RelaxedCaptures relaxed;
    synchronize_device(ordinal);
    for (void* const block : awaited.blocks) check(cudaFreeAsync(block, pool.stream), "cudaFreeAsync");
}

// At the exit of the process memory is not freed.
void give_back(void* memory, std::size_t bytes, int ordinal, const Pool& pool) noexcept {
    try {
        free_after_work(pools().add_awaited(memory, bytes, ordinal, pool), ordinal, pool);
    } catch (const CudaError&) {
    }
}

std::set<cudaMemPool_t> pools_of(const Pool& pool) { return {pool.memory, pool.scratch}; }

std::size_t read(const Pool& pool, cudaMemPoolAttr attribute) {
    std::size_t sum = 0;
    for (const cudaMemPool_t memory : pools_of(pool)) {
        std::uint64_t value = 0;
        check(cudaMemPoolGetAttribute(memory, attribute, &value), "cudaMemPoolGetAttribute");
        sum += value;
    }
    return sum;
}

}  // namespace

std::shared_ptr<void> allocate(std::size_t bytes, int ordinal) {
    const Pool& pool = pools().of(ordinal);
    const DeviceGuard guard(ordinal);
    const bool has_pool = pool.memory != nullptr && !pools().is_left(ordinal);
    void* const pointer = has_pool ? take(bytes, ordinal, pool.memory, pool.stream) : nullptr;
    if (pointer == nullptr) return take_from_driver(bytes, ordinal);
    std::shared_ptr<void> owner(pointer,
                                [bytes, ordinal, &pool](void* memory) { give_back(memory, bytes, ordinal, pool); });
    check(cudaStreamSynchronize(pool.stream), "cudaStreamSynchronize");  // for use on every stream
    return owner;
}

std::shared_ptr<void> allocate_scratch(std::size_t bytes, int ordinal, Stream stream) {
    if (bytes == 0) return {};
    const Pool& pool = pools().of(ordinal);
    const DeviceGuard guard(ordinal);
    if (pool.memory == nullptr) return take_from_driver(bytes, ordinal);
    constexpr std::size_t kSmallestScratch = 512;
    const std::size_t size = bytes > kSmallScratch ? bytes : std::bit_ceil(std::max(bytes, kSmallestScratch));
    void* pointer = pools().take_scratch(size, ordinal, stream);
    if (pointer == nullptr) pointer = take(size, ordinal, pool.scratch, native(stream));
    if (pointer == nullptr) return take_from_driver(bytes, ordinal);
    return {pointer, [size, ordinal, stream](void* memory) {
                if (pools().keep_scratch(memory, size, ordinal, stream)) return;
                const RelaxedCaptures relaxed;
                cudaFreeAsync(memory, native(stream));
            }};
}

std::size_t idle_bytes(int ordinal) {
    const Pool* const pool = pools().known(ordinal);
    if (pool == nullptr) return 0;
    const std::size_t reserved = read(*pool, cudaMemPoolAttrReservedMemCurrent);
    const std::size_t used = read(*pool, cudaMemPoolAttrUsedMemCurrent);
    return (reserved > used ? reserved - used : 0) + pools().idle_bytes(ordinal);
}

void release_idle_memory(int ordinal) {
    const Pool* const pool = pools().known(ordinal);
    if (pool == nullptr) return;
    const DeviceGuard guard(ordinal);
    free_after_work(pools().take_idle(ordinal), ordinal, *pool);
    check(cudaStreamSynchronize(pool->stream),
          "cudaStreamSynchronize");  // memory that was freed there counts as used until then
    for (const cudaMemPool_t memory : pools_of(*pool)) check(cudaMemPoolTrimTo(memory, 0), "cudaMemPoolTrimTo");
}

void leave_pool(int ordinal) { pools().leave(ordinal); }

void share_pool(int ordinal, int other) {
    const Pool& pool = pools().of(other);
    if (pool.memory == nullptr) return;
    const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, ordinal}, cudaMemAccessFlagsProtReadWrite};
    check(cudaMemPoolSetAccess(pool.memory, &access, 1), "cudaMemPoolSetAccess");
    pools().separate_scratch(other);
}

}  // namespace spmvgpu::gpu
