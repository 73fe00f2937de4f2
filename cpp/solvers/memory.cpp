#include "solvers/memory.hpp"

#include <mutex>

namespace spmvgpu {

SolverMemory::Lease::Lease(SolverMemory& from, std::size_t bytes) : from_(from) {
    {
        const std::lock_guard lock(from.mutex_);
        if (!from.idle_.empty()) {
            memory_ = from.idle_.back();
            from.idle_.pop_back();
        }
    }
    if (memory_.bytes() < bytes) {
        memory_ = {};  // first, so that both need not fit at once
        memory_ = Array<char>(bytes, from.device_);
    }
}

SolverMemory::Lease::~Lease() {
    const std::lock_guard lock(from_.mutex_);
    from_.idle_.push_back(memory_);
}

std::size_t SolverMemory::nbytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& memory : idle_) bytes += memory.footprint();
    return bytes;
}

void SolverMemory::clear() {
    const std::lock_guard lock(mutex_);
    idle_.clear();
}

}  // namespace spmvgpu
