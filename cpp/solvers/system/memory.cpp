#include "solvers/system/memory.hpp"

#include <algorithm>
#include <mutex>

namespace spmvgpu {

SolverMemory::Lease::Lease(SolverMemory& from, std::size_t bytes, Device device) : from_(from) {
    const auto smaller = [](const Array<char>& a, const Array<char>& b) { return a.bytes() < b.bytes(); };
    {
        const std::lock_guard lock(from.mutex_);
        auto& idle = from.idle_;
        std::sort(idle.begin(), idle.end(), smaller);
        auto found = idle.end();
        for (auto memory = idle.begin(); memory != idle.end(); ++memory) {
            if (memory->device() != device) continue;
            found = memory;  // the largest, which makes room for a larger one, unless one is large enough
            if (memory->bytes() >= bytes) break;
        }
        if (found != idle.end()) {
            memory_ = *found;
            idle.erase(found);
        }
    }
    if (memory_.bytes() < bytes) {
        memory_ = {};  // first, so that both need not fit at once
        memory_ = Array<char>(bytes, device);
    }
}

SolverMemory::Lease::~Lease() {
    const std::lock_guard lock(from_.mutex_);
    from_.idle_.push_back(memory_);
}

std::size_t SolverMemory::nbytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& memory : idle_) bytes += memory.bytes();
    return bytes;
}

void SolverMemory::clear() {
    const std::lock_guard lock(mutex_);
    idle_.clear();
}

}  // namespace spmvgpu
