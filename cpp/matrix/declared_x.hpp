// DeclaredX<T>: the x that a caller has declared constant, so that gathered values can be kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/mutex.hpp"

namespace spmvgpu {

template <class T>
class DeclaredX {
public:
    void declare(const T* x) {
        const std::lock_guard lock(mutex_);
        // In this order, so that after a fork in between no product takes the values of another x.
        x_ = nullptr;
        ++version_;
        x_ = x;
    }

    // Number of the declaration of this x; 0 if there was none, or one of another x after it.
    std::uint64_t version_of(const T* x) const {
        const std::lock_guard lock(mutex_);
        return x != nullptr && x == x_ ? version_.load() : 0;
    }

private:
    mutable Mutex mutex_;
    std::atomic<const T*> x_ = nullptr;  // atomic because of forks
    std::atomic<std::uint64_t> version_ = 0;
};

}  // namespace spmvgpu
