#include <map>

#include "core/memory.hpp"
#include "core/mutex.hpp"
#include "gpu/cuda/check.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu::gpu {

namespace {

// Blocks are kept for re-use up to this many bytes; page-locking costs far more than a transfer does.
constexpr std::size_t kMaxIdleBytes = std::size_t(1) << 30;

class PinnedPool {
public:
    void* take(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        auto found = idle_.find(bytes);
        void* block = nullptr;
        if (found != idle_.end()) {
            block = found->second;
            idle_.erase(found);
            idle_bytes_ -= bytes;
        } else {
            block = allocate(bytes);
        }
        in_use_[static_cast<char*>(block)] = bytes;
        return block;
    }

    void give_back(void* block) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = in_use_.find(static_cast<char*>(block));
        const std::size_t bytes = found->second;
        in_use_.erase(found);
        if (idle_bytes_ + bytes > kMaxIdleBytes) {
            cudaFreeHost(block);
        } else {
            idle_.emplace(bytes, block);
            idle_bytes_ += bytes;
        }
    }

    bool contains(const char* memory, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        auto after = in_use_.upper_bound(const_cast<char*>(memory));
        if (after == in_use_.begin()) return false;
        const auto& [block, size] = *std::prev(after);
        return memory + bytes <= block + size;
    }

private:
    void* allocate(std::size_t bytes) {
        void* block = nullptr;
        cudaError_t status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
        if (status == cudaErrorMemoryAllocation) {  // idle blocks may be the missing memory
            cudaGetLastError();
            for (const auto& [size, idle] : idle_) cudaFreeHost(idle);
            idle_.clear();
            idle_bytes_ = 0;
            status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
        }
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw OutOfMemory("page-locked host memory", bytes, free_host_memory());
        }
        check(status, "cudaHostAlloc");
        return block;
    }

    Mutex mutex_;
    std::multimap<std::size_t, void*> idle_;
    std::map<char*, std::size_t> in_use_;
    std::size_t idle_bytes_ = 0;
};

PinnedPool& pool() {
    // Never destroyed: arrays may outlive every other static, and at exit the driver frees the memory anyway.
    static PinnedPool* const instance = new PinnedPool;
    return *instance;
}

// Sizes are rounded up by at most an eighth, so that blocks of similar vectors can stand in for each other.
std::size_t size_class(std::size_t bytes) {
    std::size_t step = 4096;
    while (step * 8 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
    return {pool().take(size_class(bytes)), [](void* block) { pool().give_back(block); }};
}

bool is_pinned(const void* memory, std::size_t bytes) {
    return pool().contains(static_cast<const char*>(memory), bytes);
}

}  // namespace spmvgpu::gpu
