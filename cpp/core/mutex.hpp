// A mutex that stays usable after a fork: locks held by threads of the parent are free in the child.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace spmvgpu {

// How many forks lie between this process and the one that loaded the library.
std::uint32_t fork_generation();

// Satisfies Lockable. A thread that holds the mutex and asks for it again in a handler of Python's signals would wait
// for ever; it gets an exception instead. After fork() only the thread that called it is left, and it holds none of
// these mutexes, so a mutex that was locked in an earlier generation is free. The protected data must be fit for use at
// every moment, because the owner may have been anywhere when the fork came.
class Mutex {
public:
    Mutex() = default;
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    bool try_lock() {
        std::uint32_t owner = owner_.load(std::memory_order_relaxed);
        if (owner == here() || !owner_.compare_exchange_strong(owner, here(), std::memory_order_acquire)) return false;
        thread_.store(this_thread(), std::memory_order_relaxed);
        return true;
    }

    void lock() {
        while (!try_lock()) {
            if (thread_.load(std::memory_order_relaxed) == this_thread()) refuse();
            owner_.wait(here(), std::memory_order_relaxed);
        }
    }

    void unlock() {
        thread_.store(nullptr, std::memory_order_relaxed);
        owner_.store(kFree, std::memory_order_release);
        owner_.notify_one();
    }

private:
    static constexpr std::uint32_t kFree = 0;
    static std::uint32_t here() { return fork_generation() + 1; }

    // An address that no other living thread gives.
    static const void* this_thread() {
        static thread_local char own;
        return &own;
    }

    [[noreturn]] static void refuse();

    std::atomic<std::uint32_t> owner_{kFree};   // the generation in which it was locked, counted from 1
    std::atomic<const void*> thread_{nullptr};  // thread that holds the mutex, or that does so a moment later
};

}  // namespace spmvgpu
